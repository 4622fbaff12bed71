#!/usr/bin/env ruby
# Streams an answer over gRPC. docs/grpc.md says how what it requires is made.
#
#     firstlight serve --model MODEL --grpc-port 8081
#     ruby -I examples examples/grpc_chat.rb 127.0.0.1:8081 "What is the capital of France?"

require 'grpc'
require 'firstlight_services_pb'

address, text = ARGV
stub = Firstlight::V1::Inference::Stub.new(address, :this_channel_is_insecure)
ask = Firstlight::V1::ChatRequest.new(
  messages: [Firstlight::V1::Message.new(role: 'user', content: text)],
  sampling: Firstlight::V1::Sampling.new(max_tokens: 64, temperature: 0)
)
last = nil
begin
  stub.chat(ask, deadline: Time.now + 60).each do |response|
    response.choices.each { |choice| print choice.text }
    $stdout.flush
    last = response
  end
rescue GRPC::BadStatus => error
  warn "#{error.class.name.split('::').last}: #{error.details}"
  exit 1
end
puts format("\n[first token after %.1f ms, of which %.1f ms prefill]",
            last.ttft.total_ms, last.ttft.prefill_ms)
