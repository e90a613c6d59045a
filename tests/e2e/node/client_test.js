// The Open Inference Protocol and the health service, from Node's gRPC: node client_test.js TASK.json
// TASK.json holds the address and the images, with what `ckn-client` has got for them; node_client_test.py writes it.
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test, after } = require('node:test');

const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const task = JSON.parse(fs.readFileSync(process.argv[2]));
const options = { keepCase: true, longs: Number, defaults: true, oneofs: true };
const protocol = grpc.loadPackageDefinition(
  protoLoader.loadSync(path.join(task.proto, 'inference/open_inference.proto'), options)).inference;
const healthProto = path.join(path.dirname(require.resolve('grpc-health-check/package.json')),
  'proto/health/v1/health.proto');
const health = grpc.loadPackageDefinition(protoLoader.loadSync(healthProto, { ...options, enums: String })).grpc.health.v1;

const client = new protocol.GRPCInferenceService(task.server, grpc.credentials.createInsecure());
const healthClient = new health.Health(task.server, grpc.credentials.createInsecure());
after(() => { client.close(); healthClient.close(); });

function call(of, method, request, callOptions = {}) {
  return new Promise((resolve, reject) => {
    of[method](request, callOptions, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}

const files = task.images.map((image) => fs.readFileSync(image.file));
const count = task.images.length;
const sideShape = [count, task.side, task.side, 1];

// Raw BYTES: each element after its length.
function rawStrings(elements) {
  return Buffer.concat(elements.flatMap((element) => {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(element.length);
    return [length, element];
  }));
}

function readRawStrings(raw) {
  const elements = [];
  for (let at = 0; at < raw.length; at += 4 + raw.readUInt32LE(at)) {
    elements.push(raw.subarray(at + 4, at + 4 + raw.readUInt32LE(at)).toString());
  }
  return elements;
}

function readRawFloats(raw) {
  return Array.from({ length: raw.length / 4 }, (_, i) => raw.readFloatLE(4 * i));
}

function checkAnswer(reply, raw) {
  assert.strictEqual(reply.model_name, task.model);
  assert.strictEqual(reply.model_version, '1');
  assert.deepStrictEqual(reply.outputs.map((output) => output.name), ['label', 'scores']);
  assert.deepStrictEqual(reply.outputs.map((output) => output.shape), [[count, 1], [count, 3]]);
  const labels = raw ? readRawStrings(reply.raw_output_contents[0])
    : reply.outputs[0].contents.bytes_contents.map((bytes) => bytes.toString());
  const scores = raw ? readRawFloats(reply.raw_output_contents[1]) : reply.outputs[1].contents.fp32_contents;
  assert.deepStrictEqual(labels, task.images.map((image) => image.label));
  const expected = task.images.flatMap((image) => image.scores);
  assert.strictEqual(scores.length, expected.length);
  scores.forEach((score, i) => assert.ok(Math.abs(score - expected[i]) < 1e-5, `${score}, expected ${expected[i]}`));
}

function request(tensor, more = {}) {
  return { model_name: task.model, inputs: [tensor], ...more };
}

test('the server lives and is ready', async () => {
  assert.deepStrictEqual(await call(client, 'ServerLive', {}), { live: true });
  assert.deepStrictEqual(await call(client, 'ServerReady', {}), { ready: true });
  assert.deepStrictEqual(await call(client, 'ModelReady', { name: task.model }), { ready: true });
  assert.deepStrictEqual(await call(client, 'ModelReady', { name: 'nobody' }), { ready: false });
});

test('metadata', async () => {
  assert.strictEqual((await call(client, 'ServerMetadata', {})).name, 'ckn');
  const metadata = await call(client, 'ModelMetadata', { name: task.model });
  assert.strictEqual(metadata.name, task.model);
  assert.deepStrictEqual(metadata.versions, ['1']);
  assert.deepStrictEqual(metadata.inputs, [{ name: 'image', datatype: 'BYTES', shape: [-1, 1] }]);
  assert.deepStrictEqual(metadata.outputs.map((output) => output.name).slice(0, 2), ['label', 'scores']);
});

test('image files, raw', async () => {
  const reply = await call(client, 'ModelInfer', request(
    { name: 'image', datatype: 'BYTES', shape: [count, 1] }, { raw_input_contents: [rawStrings(files)], id: 'raw' }));
  assert.strictEqual(reply.id, 'raw');
  checkAnswer(reply, true);
});

test('image files, typed', async () => {
  checkAnswer(await call(client, 'ModelInfer', request(
    { name: 'image', datatype: 'BYTES', shape: [count], contents: { bytes_contents: files } })), false);
});

test('pixels, raw and typed', async () => {
  const pixels = task.images.flatMap((image) => image.pixels);
  checkAnswer(await call(client, 'ModelInfer', request(
    { name: 'pixels', datatype: 'UINT8', shape: sideShape }, { raw_input_contents: [Buffer.from(pixels)] })), true);
  checkAnswer(await call(client, 'ModelInfer', request(
    { name: 'pixels', datatype: 'UINT8', shape: sideShape, contents: { uint_contents: pixels } })), false);
  checkAnswer(await call(client, 'ModelInfer', request(
    { name: 'pixels', datatype: 'FP32', shape: sideShape, contents: { fp32_contents: pixels.map((x) => x / 255) } })),
  false);
});

test('the classification extension', async () => {
  const reply = await call(client, 'ModelInfer', request(
    { name: 'image', datatype: 'BYTES', shape: [count], contents: { bytes_contents: files } },
    { outputs: [{ name: 'scores', parameters: { classification: { int64_param: 1 } } }] }));
  const labels = reply.outputs[0].contents.bytes_contents.map((bytes) => bytes.toString().split(':')[2]);
  assert.deepStrictEqual(labels, task.images.map((image) => image.label));
});

test('a stream answers in order, and an error does not end it', async () => {
  const stream = client.ModelStreamInfer();
  const answers = [];
  const ended = new Promise((resolve, reject) => {
    stream.on('data', (answer) => answers.push(answer));
    stream.on('error', reject);
    stream.on('end', resolve);
  });
  const good = { name: 'image', datatype: 'BYTES', shape: [count, 1] };
  for (let i = 0; i < 40; ++i) {
    stream.write(i === 20 ? { model_name: 'nobody', id: '20', inputs: [good] }
      : request(good, { raw_input_contents: [rawStrings(files)], id: String(i) }));
  }
  stream.end();
  await ended;
  assert.deepStrictEqual(answers.map((answer) => answer.infer_response.id), Array.from({ length: 40 }, (_, i) => String(i)));
  answers.forEach((answer, i) => {
    if (i === 20) return assert.match(answer.error_message, /^NOT_FOUND: .*nobody/);
    assert.strictEqual(answer.error_message, '');
    return checkAnswer(answer.infer_response, true);
  });
});

test('errors have their code and say why', async () => {
  await assert.rejects(call(client, 'ModelInfer', { ...request({ name: 'image' }), model_name: 'nobody' }),
    (error) => error.code === grpc.status.NOT_FOUND && /nobody/.test(error.details));
  await assert.rejects(call(client, 'ModelInfer', request(
    { name: 'image', datatype: 'BYTES', shape: [1], contents: { bytes_contents: [Buffer.from('no image')] } })),
  (error) => error.code === grpc.status.INVALID_ARGUMENT && /image 0: /.test(error.details));
  await assert.rejects(call(client, 'ModelInfer', request({ name: 'image' }), { deadline: Date.now() - 1 }),
    (error) => error.code === grpc.status.DEADLINE_EXCEEDED);
});

test('health: Check and Watch', async () => {
  for (const service of ['', 'inference.GRPCInferenceService', 'ckn.v1.Inference', task.model]) {
    assert.deepStrictEqual(await call(healthClient, 'Check', { service }), { status: 'SERVING' });
  }
  await assert.rejects(call(healthClient, 'Check', { service: 'nobody' }),
    (error) => error.code === grpc.status.NOT_FOUND);
  const watch = healthClient.Watch({ service: '' });
  const first = await new Promise((resolve, reject) => {
    watch.once('data', resolve);
    watch.on('error', (error) => (error.code === grpc.status.CANCELLED ? undefined : reject(error)));
  });
  assert.strictEqual(first.status, 'SERVING');
  watch.cancel();
});
