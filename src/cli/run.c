/* firstlight run: one prompt, its answer on the terminal. */
#include "cli/commands.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/run_report.h"
#include "cli/sampling_flags.h"
#include "engine/engine.h"
#include "text/template/chat.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define COMMAND "run"

struct stop_list {
    const char *strings[LIMIT_STOP_STRINGS]; /* borrowed from argv */
    uint32_t n;
};

struct seed {
    bool given;
    uint64_t value;
};

struct args {
    struct options options;
    const char *prompt;
    const char *prompt_file;
    const char *system;
    struct sampling_flags sampling;
    struct seed seed;
    struct stop_list stop;
    uint32_t max_tokens;
    bool raw;
    bool ignore_eos;
    bool json;
};

/* One run of the command. */
struct job {
    const struct args *args;
    struct loader loader;
    struct engine *engine;
    struct buf prompt;
    int signal_fd;
    bool interrupted;
};

/* --- flags ---------------------------------------------------------------------------------- */

static enum status parse_stop(void *field, const char *text, struct err *err)
{
    struct stop_list *list = field;
    if (list->n == LIMIT_STOP_STRINGS)
        return err_param(err, STATUS_INVALID, "--stop", "--stop: at most %d strings",
                         LIMIT_STOP_STRINGS);
    list->strings[list->n++] = text;
    return STATUS_OK;
}

static enum status parse_seed(void *field, const char *text, struct err *err)
{
    struct seed *seed = field;
    char *end;
    errno = 0;
    seed->value = strtoull(text, &end, 10);
    seed->given = true;
    if (*text < '0' || *text > '9' || *end != '\0' || errno == ERANGE)
        return err_param(err, STATUS_INVALID, "--seed", "--seed: \"%.40s\" is no whole number",
                         text);
    return STATUS_OK;
}

// clang-format off
static const struct flag own_flags[] = {
    {"--prompt-file", "PATH", "read the prompt from a file, - for standard input",
     FLAG_TEXT, FLAG_FIELD(args, prompt_file)},
    {"--system", "TEXT", "a system message before the prompt", FLAG_TEXT, FLAG_FIELD(args, system)},
    {"--raw", NULL, "no chat template: the prompt is continued as it stands",
     FLAG_BOOL, FLAG_FIELD(args, raw)},
    {"--max-tokens", "N", "tokens of the answer at most; 0: up to the context's end\n(default 512)",
     FLAG_U32, FLAG_FIELD(args, max_tokens), .max = LIMIT_CONTEXT},
    {"--ignore-eos", NULL, "go on past the model's end of text",
     FLAG_BOOL, FLAG_FIELD(args, ignore_eos)},
    {"--stop", "TEXT", "end before this text; may be given up to 4 times",
     FLAG_CUSTOM, FLAG_FIELD(args, stop), .parse = parse_stop},
    {"--seed", "N", "the same numbers are drawn again (default: random)",
     FLAG_CUSTOM, FLAG_FIELD(args, seed), .parse = parse_seed},
    {"--json", NULL, "print one JSON object instead of a stream",
     FLAG_BOOL, FLAG_FIELD(args, json)},
};
// clang-format on

/* --- the prompt ----------------------------------------------------------------------------- */

static enum status run_read_stream(FILE *f, const char *path, struct buf *out, struct err *err)
{
    if (buf_read(out, f))
        return STATUS_OK;
    if (out->failed)
        return err_param(err, STATUS_TOO_LARGE, "--prompt-file", "%s has more than %u bytes", path,
                         LIMIT_BODY_BYTES);
    return err_param(err, STATUS_IO, "--prompt-file", "cannot read %s: %s", path, strerror(errno));
}

static enum status read_prompt(struct job *job, struct err *err)
{
    const struct args *args = job->args;
    if (!args->prompt == !args->prompt_file)
        return err_set(err, STATUS_INVALID,
                       "give one prompt: firstlight run \"TEXT\", or --prompt-file PATH");
    job->prompt.limit = LIMIT_BODY_BYTES;
    if (args->prompt)
        return buf_puts(&job->prompt, args->prompt)
                   ? STATUS_OK
                   : err_set(err, STATUS_TOO_LARGE, "the prompt is too long");
    bool standard = strcmp(args->prompt_file, "-") == 0;
    FILE *f = standard ? stdin : fopen(args->prompt_file, "rb");
    if (!f)
        return err_param(err, STATUS_IO, "--prompt-file", "cannot open %s: %s", args->prompt_file,
                         strerror(errno));
    enum status status = run_read_stream(f, args->prompt_file, &job->prompt, err);
    if (!standard)
        fclose(f);
    return status;
}

/* A new reference; NULL when a text is not UTF-8. */
static json_t *make_messages(const struct job *job)
{
    const char *system = job->args->system;
    json_t *messages = json_array();
    int bad = messages == NULL;
    if (system)
        bad |= json_array_append_new(messages,
                                     json_pack("{s:s, s:s}", "role", "system", "content", system));
    bad |= json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", "user", "content",
                                                     buf_str(&job->prompt), job->prompt.len));
    if (!bad)
        return messages;
    json_decref(messages);
    return NULL;
}

static enum status run_tokenize(const struct job *job, struct tokens *out, struct err *err)
{
    const struct loader *l = &job->loader;
    if (job->args->raw)
        return tokenizer_encode(l->tokenizer, buf_str(&job->prompt), job->prompt.len, NULL,
                                TOKENIZE_SPECIAL | TOKENIZE_ADD, out, err);
    json_t *messages = make_messages(job);
    if (!messages)
        return err_set(err, STATUS_INVALID, "the prompt or the system message is not UTF-8");
    enum status status =
        chat_tokens(l->chat_template, l->tokenizer, messages, NULL, true, out, err);
    json_decref(messages);
    return status;
}

static enum status copy_stop(const struct args *args, struct request_params *p, struct err *err)
{
    for (uint32_t i = 0; i < args->stop.n; i++) {
        p->stop[p->n_stop] = mem_strdup(args->stop.strings[i]);
        if (!p->stop[p->n_stop++])
            return err_set(err, STATUS_NO_MEMORY, "no memory for the stop strings");
    }
    return STATUS_OK;
}

/* What the flags say, else what the model recommends, else what the server has. */
static struct sampling choose_sampling(const struct job *job)
{
    struct sampling s = sampling_default;
    sampling_take(&s, &job->loader.generation);
    sampling_flags_take(&s, &job->args->sampling);
    s.has_seed = job->args->seed.given;
    s.seed = job->args->seed.value;
    return s;
}

/* The request as the engine takes it; *p is to be freed by the caller either way. */
static enum status run_make_params(const struct job *job, struct request_params *p, struct err *err)
{
    const struct args *args = job->args;
    struct tokens tokens = {0};
    timeline_stamp(&p->timeline, TIMELINE_PARSED);
    enum status status = run_tokenize(job, &tokens, err);
    p->prompt = tokens.ids; /* ours to give away: tokens_fini is not called */
    p->n_prompt = (uint32_t)tokens.count;
    p->max_tokens = args->max_tokens;
    p->sampling = choose_sampling(job);
    p->ignore_eos = args->ignore_eos;
    timeline_stamp(&p->timeline, TIMELINE_TOKENIZED);
    return status ? status : copy_stop(args, p, err);
}

/* --- the run -------------------------------------------------------------------------------- */

/* Before any thread starts, so that all of them leave SIGINT to the descriptor. */
static enum status catch_interrupt(struct job *job, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    job->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signal_fd < 0)
        return err_set(err, STATUS_IO, "signalfd: %s", strerror(errno));
    return STATUS_OK;
}

/* Sleeps until there is news; Ctrl-C asks the request to end. */
static void wait_for_news(struct job *job, struct request *r)
{
    struct pollfd fds[] = {{engine_event_fd(job->engine), POLLIN, 0}, {job->signal_fd, POLLIN, 0}};
    struct signalfd_siginfo info;
    poll(fds, 2, -1);
    if (read(job->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        job->interrupted = true;
        engine_cancel(job->engine, r);
    }
    engine_events_clear(job->engine);
}

/* The first text is the first content also where --json keeps it for the end: this is a command to
 * measure with. */
static void run_take_news(struct request *r, const struct request_news *news, bool show)
{
    if (news->text_len == 0)
        return;
    timeline_stamp(request_timeline(r), TIMELINE_FIRST_CONTENT);
    if (!show)
        return;
    fwrite(news->text, 1, news->text_len, stdout);
    fflush(stdout);
}

static void follow(struct job *job, struct request *r)
{
    struct request_news news = {0};
    while (news.finish == FINISH_NONE) {
        wait_for_news(job, r);
        while (engine_next_event(job->engine)) {
            request_read(r, &news);
            run_take_news(r, &news, !job->args->json);
        }
    }
}

static enum status run_answer(struct job *job, struct request_params *p, struct err *err)
{
    struct request *r;
    enum status status = engine_submit(job->engine, p, &r, err);
    if (status != STATUS_OK)
        return status;
    follow(job, r);
    timeline_stamp(request_timeline(r), TIMELINE_FIRST_CONTENT); /* an unstreamed or empty answer */
    struct request_news all;
    request_all(r, &all);
    status = engine_failure(job->engine, err);
    if (status == STATUS_OK && all.finish == FINISH_ERROR)
        status = err_set(err, STATUS_INTERNAL, "the model computed logits that are not finite");
    else if (status == STATUS_OK && job->args->json)
        status = run_report_json(r, err);
    else if (status == STATUS_OK)
        run_report_lines(r);
    engine_release(job->engine, r);
    return status;
}

static enum status run_open_engine(struct job *job, struct err *err)
{
    struct engine_options options;
    enum status status = options_engine(&job->args->options, &options, err);
    if (status != STATUS_OK)
        return status;
    options.n_slots = options.max_batch_seqs = 1;
    return engine_open(&job->engine, &job->loader, &options, err);
}

static enum status run_run(struct job *job, struct err *err)
{
    enum status status = read_prompt(job, err);
    if (status == STATUS_OK)
        status = options_load(&job->args->options, &job->loader, err);
    if (status == STATUS_OK)
        options_tell_sampling(&job->loader);
    if (status == STATUS_OK)
        status = catch_interrupt(job, err);
    if (status == STATUS_OK)
        status = run_open_engine(job, err);
    if (status != STATUS_OK)
        return status;
    struct request_params params = {0};
    timeline_stamp(&params.timeline, TIMELINE_RECEIVED);
    status = run_make_params(job, &params, err);
    if (status == STATUS_OK)
        status = run_answer(job, &params, err);
    request_params_fini(&params);
    return status;
}

static void run_close_job(struct job *job)
{
    engine_close(job->engine);
    loader_close(&job->loader);
    buf_fini(&job->prompt);
    if (job->signal_fd >= 0)
        close(job->signal_fd);
}

int run_main(int argc, char **argv)
{
    struct args args = {
        .options = options_default,
        .max_tokens = LIMIT_DEFAULT_MAX_TOKENS,
    };
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--model PATH \"PROMPT\" [flags]",
        .about = "Answers one prompt on the terminal and ends with a line of times on standard "
                 "error.\nWithout --raw the prompt is a user's message in the model's chat "
                 "template.\nSampling is the server's: --temperature 0 makes a run that can be "
                 "repeated.",
        .groups = {FLAG_GROUP(own_flags, &args), sampling_flags_init(&args.sampling),
                   options_text_flags(&args.options), options_engine_flags(&args.options),
                   options_model_flags(&args.options)},
        .positional = &args.prompt,
        .max_positional = 1,
    };
    struct err err = {0};
    struct job job = {.args = &args, .signal_fd = -1};
    int exit_code;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    enum status status = options_check(&args.options, &err);
    if (status == STATUS_OK)
        status = run_run(&job, &err);
    run_close_job(&job);
    if (status != STATUS_OK)
        return flags_fail(COMMAND, &err);
    return job.interrupted ? FLAGS_INTERRUPTED : EXIT_SUCCESS;
}
