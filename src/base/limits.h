/* Every named maximum of the program. docs/limits.md shows them in one table; each has a test but
 * LIMIT_TEMPLATE_PROGRAM, of which LIMIT_TEMPLATE_BYTES of source took a third at most, and
 * LIMIT_KEEPALIVE_SECONDS and LIMIT_MODELS_SECONDS, for which a test would have to wait.
 * A limit that a flag can change is the flag's default here. */
#ifndef FIRSTLIGHT_BASE_LIMITS_H
#define FIRSTLIGHT_BASE_LIMITS_H

/* Model files */
#define LIMIT_GGUF_TENSORS       65536       /* tensors in a file */
#define LIMIT_GGUF_KEYS          65536       /* metadata pairs in a file */
#define LIMIT_GGUF_STRING        (16u << 20) /* bytes of one metadata string */
#define LIMIT_GGUF_KEY_BYTES     65535       /* bytes of a metadata key (the format's own limit) */
#define LIMIT_GGUF_TENSOR_NAME   64          /* bytes of a tensor's name (the format's own limit) */
#define LIMIT_GGUF_ARRAY_DEPTH   4           /* arrays in arrays */
#define LIMIT_SAFETENSORS_HEADER (16u << 20) /* bytes of a safetensors header or index */
#define LIMIT_CONFIG_BYTES       (4u << 20)  /* config.json and its like */
#define LIMIT_TOKENIZER_BYTES    (128u << 20) /* tokenizer.json */
#define LIMIT_MODEL_FILES        1024         /* files of one model */
#define LIMIT_MODEL_LAYERS       1024
#define LIMIT_MODEL_VOCAB        (1u << 21)
#define LIMIT_MODEL_WIDTH        (1u << 20) /* embedding and feed-forward length */
#define LIMIT_MODEL_HEADS        4096
#define LIMIT_MODEL_HEAD_DIM     256         /* dimensions of one attention head */
#define LIMIT_END_IDS            64          /* tokens that end a generation, of a folder's files */
#define LIMIT_MODEL_MERGES       (1u << 22)  /* merges of a byte-pair vocabulary */
#define LIMIT_TOKEN_BYTES        1024        /* bytes of one vocabulary entry */
#define LIMIT_REGEX_BYTES        (16u << 10) /* an expression of a tokenizer.json */

/* Chat templates */
#define LIMIT_TEMPLATE_BYTES   (256u << 10) /* source of a template */
#define LIMIT_TEMPLATE_DEPTH   64           /* nesting of expressions and blocks */
#define LIMIT_TEMPLATE_FRAMES  1024         /* nesting of evaluations, macros, values */
#define LIMIT_TEMPLATE_MEMORY  (256u << 20) /* bytes of values of one rendering */
#define LIMIT_TEMPLATE_PROGRAM (128u << 20) /* bytes of one compiled template */
#define LIMIT_TEMPLATE_RANGE   100000       /* items of range(), as jinja2's sandbox has it */
#define LIMIT_TEMPLATE_STEPS   (4u << 20)   /* evaluation steps of one rendering */
#define LIMIT_TEMPLATE_OUTPUT  (32u << 20)  /* bytes of one rendering */

/* Requests */
#define LIMIT_BODY_BYTES          (8u << 20)  /* decoded bytes of a request body */
#define LIMIT_BODY_INLINE         (2u << 10)  /* larger bodies are parsed by text workers */
#define LIMIT_BODY_USUAL          (64u << 10) /* larger ones by the slow one of them */
#define LIMIT_INLINE_US           1000   /* that the I/O thread parses and tokenizes at a time */
#define LIMIT_TEXT_BURST_US       250000 /* of a processor: a client's requests without answer */
#define LIMIT_TEXT_US_PER_SECOND  50000  /* and again each second; then the slow worker */
#define LIMIT_TEXT_JOBS           8192   /* requests that wait for the text workers */
#define LIMIT_HEADER_BYTES        (16u << 10) /* all request headers together */
#define LIMIT_BODY_UNASKED        (4u << 10)  /* of a body for a path that takes none */
#define LIMIT_JSON_DEPTH          64
#define LIMIT_JSON_CONTAINERS     (64u << 10)   /* objects and arrays of a request */
#define LIMIT_JSON_STRINGS        (128u << 10)  /* strings of a request, names among them */
#define LIMIT_JSON_NUMBERS        (1088u << 10) /* other values: LIMIT_CONTEXT ids, and some */
#define LIMIT_QUESTION_BYTES      (64u << 20)   /* a message of gRPC, unpacked */
#define LIMIT_MESSAGES            4096          /* messages of one chat request */
#define LIMIT_TOKENIZE_BYTES      (1u << 20)    /* of a text that is only to become tokens */
#define LIMIT_STOP_STRINGS        4
#define LIMIT_STOP_BYTES          256  /* bytes of one stop string */
#define LIMIT_LOGIT_BIAS          1024 /* entries of logit_bias */
#define LIMIT_CACHE_SALT_BYTES    256
#define LIMIT_TIMEOUT_SECONDS     86400   /* timeout of a request, --request-timeout */
#define LIMIT_PRIORITY            1000000 /* of a request, either way */
#define LIMIT_ANSWER_LOGPROBS     131072  /* of one whole answer: tokens times 1 + alternatives */
#define LIMIT_CHOICE_BYTES        (64u << 20) /* of a whole choice; its log probabilities: half */
#define LIMIT_ECHO_BYTES          (8u << 20)  /* of all texts that one request's echo gives back */
#define LIMIT_TOP_K               1000000
#define LIMIT_TOP_LOGPROBS        20  /* alternatives reported with each token of a chat */
#define LIMIT_COMPLETION_LOGPROBS 5   /* and with each token of a completion */
#define LIMIT_CHOICES             64  /* answers of one request: its prompts times n */
#define LIMIT_REQUEST_ID_BYTES    128 /* X-Request-Id longer than this is not echoed */
#define LIMIT_DEFAULT_MAX_TOKENS  512 /* max_tokens when a request names none */

/* Server */
#define LIMIT_CONNECTIONS          1024
#define LIMIT_REQUEST_MEMORY       (1u << 30)  /* --max-request-memory, where it is not given */
#define LIMIT_REQUEST_MEMORY_LEAST (64u << 20) /* and at least */
#define LIMIT_UNSENT_MEMORY        (1u << 30)  /* --max-unsent-memory, where it is not given */
#define LIMIT_UNSENT_MEMORY_LEAST  (64u << 20) /* and at least */
#define LIMIT_REQUEST_SECONDS      10          /* a whole request must have arrived */
#define LIMIT_IDLE_SECONDS         5           /* without any progress while it arrives */
#define LIMIT_KEEPALIVE_SECONDS    75          /* an idle connection between requests */
#define LIMIT_DRAIN_SECONDS        30          /* --drain-timeout */
#define LIMIT_SSE_COMMENT_SECONDS  15          /* --sse-comment */
#define LIMIT_WRITE_SECONDS        60 /* a client that takes nothing of its answer for so long */
#define LIMIT_LINGER_SECONDS       2  /* a refused connection stays to read its answer */
#define LIMIT_DISCARD_PER_SECOND   (16u << 20) /* bytes that are read for nothing, of each port */
#define LIMIT_PIPELINED_BYTES      (64u << 10) /* sent ahead of the answer to an earlier request */
#define LIMIT_STREAM_BUFFER        (4u << 10)  /* written and not yet taken; then tokens gather */
#define LIMIT_COALESCE_MS          10000       /* --grpc-coalesce-ms */
#define LIMIT_H2_FIELDS            64 /* header fields over HTTP/2, of a request and of an answer */
#define LIMIT_H2_STREAMS           1024        /* under way on one connection */
#define LIMIT_H2_UNREAD            (32u << 20) /* bodies of one connection that nobody has read */
#define LIMIT_H2_UNSENT            (32u << 20) /* answers it does not take; no more then */
#define LIMIT_H2_QUEUED            4096        /* frames without a body that it does not take */
#define LIMIT_H2_SESSION           131072      /* bytes of its tables and frames, beside streams' */
#define LIMIT_H2_IDLE_SECONDS      300         /* a connection without streams */
#define LIMIT_H2_PING_SECONDS      60     /* of silence with streams under way, then a ping asks */
#define LIMIT_H2_PONG_SECONDS      20     /* for its answer */
#define LIMIT_H2_IDLE_FRAMES       200    /* in a second: pings, settings, priorities, empty data */
#define LIMIT_H2_RESETS            200    /* streams reset in a second, beyond LIMIT_H2_STREAMS */
#define LIMIT_TLS_US_PER_SECOND    100000 /* of a processor for TLS handshakes */
#define LIMIT_TLS_WAITING          64     /* connections that wait for theirs */
#define LIMIT_TLS_WAITING_EACH     8      /* of one address */
#define LIMIT_TRACE_LINES          4096   /* of --record that wait for the disk; more are dropped */
#define LIMIT_TRACE_BYTES          (16u << 20)  /* of those lines */
#define LIMIT_LOG_BYTES            (256u << 10) /* log lines that wait; more are dropped */
#define LIMIT_RECENT_REQUESTS      256          /* of /v1/debug/requests */
#define LIMIT_LIVE_BUFFER          (128u << 10) /* events that a reader has not taken */
#define LIMIT_LIVE_REQUESTS        64 /* requests in one event, and told of when a reader comes */
#define LIMIT_LIVE_WINDOW_SECONDS  60 /* that its percentiles are of */
#define LIMIT_PAGE_BYTES           200000 /* the page's files, gzipped, all together */
#define LIMIT_WARM_PROMPTS         1024   /* prompts of --warm-prompts */
#define LIMIT_API_KEYS             1024
#define LIMIT_API_KEY_BYTES        256
#define LIMIT_ADDRESS_CONNECTIONS  0  /* --max-connections-per-address; 0: no bound */
#define LIMIT_REQUEST_RATE         0  /* --max-requests-per-second of a client; 0: no bound */
#define LIMIT_TOKEN_RATE           0  /* --max-tokens-per-second of a client; 0: no bound */
#define LIMIT_RATE_BURST_SECONDS   10 /* --rate-burst: of its rate, that a client may use at once */
#define LIMIT_RATE_CLIENTS         32768 /* whose rates are known; a new one takes an idle place */
#define LIMIT_CORS_ORIGINS         64    /* of --cors-origin */
#define LIMIT_ALLOWED_HOSTS        64    /* of --allowed-host */
#define LIMIT_HOST_BYTES           255   /* of a host's name in a request */

/* Engine */
#define LIMIT_SLOTS         1024         /* requests known at once, waiting or running */
#define LIMIT_SLOTS_MOST    4096         /* --max-requests */
#define LIMIT_QUEUED_TOKENS (256u << 10) /* --max-queued-tokens of a server */
#define LIMIT_RETRY_SECONDS 3600         /* the longest Retry-After */
#define LIMIT_BATCH_SEQS    64           /* sequences in one step */
#define LIMIT_BATCH_TOKENS  512          /* rows in one step */
#define LIMIT_THREADS       256
#define LIMIT_CONTEXT       (1u << 20) /* tokens of one sequence */

/* Benchmarks */
#define LIMIT_BENCH_REQUESTS   (1u << 20) /* requests of one run */
#define LIMIT_BENCH_RUNS       1000       /* warm-up runs, and repeats */
#define LIMIT_BENCH_SECONDS    86400      /* --timeout of one request */
#define LIMIT_BENCH_IN_ENGINE  4096 /* requests at once in an engine of the benchmark's process */
#define LIMIT_BENCH_BACKGROUND 1024 /* streams that run meanwhile */
#define LIMIT_REPLAY_LINE      (4u << 20)   /* bytes of one line of a replayed trace */
#define LIMIT_REPLAY_TOKENS    (256u << 20) /* of all prompts of a replay, made beforehand */
#define LIMIT_RESULT_BYTES     (64u << 20)  /* a result file */
#define LIMIT_RESULT_FILES     256          /* files of one `bench history` */
#define LIMIT_REQUIREMENTS     64           /* --require of one `bench compare` */
#define LIMIT_COMPARE_FILES    64           /* result files of a side of one `bench compare` */
#define LIMIT_PROMPTS          64           /* prompts of one file for bench token-speed */
#define LIMIT_PROMPT_ID_BYTES  32           /* bytes of such a prompt's id */
#define LIMIT_SSE_EVENT_BYTES  (1u << 20)   /* one event of a server's stream */
#define LIMIT_ANSWER_BYTES     (16u << 20)  /* an answer that is no stream */
#define LIMIT_MODELS_SECONDS   10           /* a server's list of models has come */
#define LIMIT_BENCH_STREAMS    100          /* gRPC: requests at once on one connection */

/* Reports of benchmarks */
#define LIMIT_REPORT_FILES  4    /* result files side by side */
#define LIMIT_REPORT_MODES  4    /* modes of runs that are told apart in one file */
#define LIMIT_REPORT_CHARTS 64   /* charts drawn of one file's own */
#define LIMIT_REPORT_ROWS   256  /* requests in a timeline; of more, every so many-th */
#define LIMIT_CHART_LINES   16   /* lines, and marks, of one chart that are drawn */
#define LIMIT_CHART_POINTS  2000 /* points of one line that are drawn; of more, every so many-th */
#define LIMIT_CHART_BARS    32   /* places of bars in one chart */

#endif
