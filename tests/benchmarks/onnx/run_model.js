// Runs an ONNX model in ONNX Runtime, on the CPU. Prints JSON on stdout.
//   node run_model.js run MODEL INPUT OUT N        INPUT: raw float32 of N images; writes the raw float32 of each output to
//                                                  OUT.NAME and prints { outputs: { NAME: shape } }
//   node run_model.js time MODEL N THREADS SECONDS times batches of N random images; prints { images_per_second,
//                                                  spinning }, by the median batch as in `ckn bench`
// Of several threads both ways to wait for work are timed, SECONDS each, and the faster one counts: spinning is the
// default and the better one on an idle machine, but several times slower when the processors have other work.
'use strict';
const fs = require('fs');
const ort = require('onnxruntime-node');

const WARM_UP_BATCHES = 3;
const MIN_BATCHES = 5;

function open(model, threads, spinning = true) {
  return ort.InferenceSession.create(model, {
    executionProviders: ['cpu'],
    graphOptimizationLevel: 'all',
    executionMode: 'sequential',
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    extra: { session: { intra_op: { allow_spinning: spinning ? '1' : '0' } } },
  });
}

// The shape of a batch of n images; the first dimension is named in the model, the others are numbers.
function batchShape(session, n) {
  const input = session.inputMetadata.find((value) => value.name === 'image');
  return [n, ...input.shape.slice(1)];
}

function imageTensor(session, n, values) {
  const shape = batchShape(session, n);
  const count = shape.reduce((a, b) => a * b, 1);
  if (values.length !== count) throw new Error(`got ${values.length} numbers, expected ${count} for [${shape}]`);
  return new ort.Tensor('float32', values, shape);
}

async function run(model, input, out, n) {
  const bytes = fs.readFileSync(input);
  const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const session = await open(model, 1);
  const results = await session.run({ image: imageTensor(session, n, values) });
  const outputs = {};
  for (const [name, tensor] of Object.entries(results)) {
    fs.writeFileSync(`${out}.${name}`, Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength));
    outputs[name] = tensor.dims;
  }
  return { outputs };
}

async function timeSession(session, n, seconds) {
  const count = batchShape(session, n).reduce((a, b) => a * b, 1);
  const values = Float32Array.from({ length: count }, () => Math.floor(256 * Math.random()) / 255);
  const feeds = { image: imageTensor(session, n, values) };
  for (let i = 0; i < WARM_UP_BATCHES; ++i) await session.run(feeds, ['features']);
  const times = [];
  const start = performance.now();
  while (times.length < MIN_BATCHES || performance.now() - start < 1000 * seconds) {
    const begin = performance.now();
    await session.run(feeds, ['features']);
    times.push(performance.now() - begin);
  }
  times.sort((a, b) => a - b);
  return (1000 * n) / times[Math.floor(times.length / 2)];
}

async function time(model, n, threads, seconds) {
  let best = { images_per_second: 0, spinning: true };
  for (const spinning of threads > 1 ? [true, false] : [true]) {
    const session = await open(model, threads, spinning);
    const rate = await timeSession(session, n, seconds);
    await session.release();
    if (rate > best.images_per_second) best = { images_per_second: rate, spinning };
  }
  return best;
}

async function main() {
  const [command, model, ...rest] = process.argv.slice(2);
  let result;
  if (command === 'run' && rest.length === 3) {
    result = await run(model, rest[0], rest[1], Number(rest[2]));
  } else if (command === 'time' && rest.length === 3) {
    result = await time(model, Number(rest[0]), Number(rest[1]), Number(rest[2]));
  } else {
    throw new Error('usage: run_model.js run MODEL INPUT OUT N | time MODEL N THREADS SECONDS');
  }
  console.log(JSON.stringify(result));
}

main().catch((error) => {
  console.error(`run_model.js: ${error.message}`);
  process.exit(1);
});
