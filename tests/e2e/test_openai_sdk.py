"""The official client, streaming and not."""

import openai
import pytest

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def name(client):
    return client.models.list().data[0].id


def test_models(client, name):
    assert client.models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("another/model")
    assert caught.value.code == "model_not_found"


def test_chat(client, name):
    answer = client.chat.completions.create(model=name, messages=QUESTION, temperature=0,
                                            max_completion_tokens=20)
    assert answer.choices[0].message.content
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage.completion_tokens <= 20
    assert answer.model_extra["ttft"]["total_ms"] > 0


def test_chat_stream(client, name):
    stream = client.chat.completions.create(model=name, messages=QUESTION, temperature=0,
                                            max_tokens=20, stream=True,
                                            stream_options={"include_usage": True})
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    whole = client.chat.completions.create(model=name, messages=QUESTION, temperature=0,
                                           max_tokens=20)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.total_tokens > 0
    assert chunks[-1].model_extra["ttft"]["total_ms"] > 0


def test_completions(client, name):
    whole = client.completions.create(model=name, prompt="The capital of France is",
                                      temperature=0, max_tokens=8)
    parts = client.completions.create(model=name, prompt="The capital of France is",
                                      temperature=0, max_tokens=8, stream=True)
    assert "".join(p.choices[0].text for p in parts) == whole.choices[0].text
    assert "Paris" in whole.choices[0].text


def test_token_ids_as_prompt(client, name):
    answer = client.completions.create(model=name, prompt=[504, 3575, 282], max_tokens=1)
    assert answer.usage.prompt_tokens == 3


def test_choices(client, name):
    answer = client.chat.completions.create(model=name, messages=QUESTION, n=3, seed=5,
                                            max_tokens=12)
    said = [choice.message.content for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    found = ["", "", ""]
    for chunk in client.chat.completions.create(model=name, messages=QUESTION, n=3, seed=5,
                                                max_tokens=12, stream=True):
        for choice in chunk.choices:
            found[choice.index] += choice.delta.content or ""
    assert found == said


def test_chat_logprobs(client, name):
    ask = {"model": name, "messages": QUESTION, "temperature": 0, "max_tokens": 8,
           "logprobs": True, "top_logprobs": 2}
    content = client.chat.completions.create(**ask).choices[0].logprobs.content
    assert "".join(entry.token for entry in content)
    assert all(entry.top_logprobs[0].token == entry.token for entry in content)
    assert all(len(entry.top_logprobs) == 2 and entry.bytes for entry in content)
    parts = [chunk.choices[0].logprobs for chunk in
             client.chat.completions.create(**ask, stream=True)]
    assert [entry for part in parts if part for entry in part.content] == content


def test_completions_of_several_prompts(client, name):
    answer = client.completions.create(model=name, prompt=["One", "Two"], n=2, max_tokens=4, seed=1,
                                       logprobs=2, temperature=0.7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    for choice in answer.choices:
        assert len(choice.logprobs.tokens) == len(choice.logprobs.text_offset)
        assert choice.logprobs.token_logprobs[0] <= 0
    echoed = client.completions.create(model=name, prompt="One", echo=True, max_tokens=2)
    assert echoed.choices[0].text.startswith("One")


def test_errors_have_their_class(client, name):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=name, messages=QUESTION, temperature=3)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=name, messages=QUESTION, n=65)
    assert caught.value.param == "n"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-9", messages=QUESTION)


def test_leaving_a_stream_early(client, name, server):
    stream = client.chat.completions.create(model=name, messages=QUESTION, max_tokens=400,
                                            stream=True)
    next(iter(stream))
    stream.close()
    assert server.get("/health")[0] == 200
