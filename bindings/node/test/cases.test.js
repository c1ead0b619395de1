"use strict";
// The bits of the C API, on the cases in the folder TENSMITH_CASES (tests/bindings/drawn_cases.py makes them).

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const { Session, TensmithError, version } = require("../index.js");

const ARRAYS = { f32: Float32Array, i64: BigInt64Array, bool: Uint8Array };

function folder(name) {
  assert.ok(process.env.TENSMITH_CASES, "TENSMITH_CASES names the folder of the cases: tests/bindings/drawn_cases.py makes it");
  return path.join(process.env.TENSMITH_CASES, name);
}
const file = (name) => path.join(folder(name), "module.so");
const open = (name) => new Session(file(name), { threads: 2 });

function stored(name, kind) {
  return fs.readFileSync(path.join(folder(name), "case.txt"), "utf8").trim().split("\n").map((line) => line.split(" "))
    .filter((words) => words[0] === kind).map(([, port, type, dims, bytes]) => {
      const content = new Uint8Array(fs.readFileSync(path.join(folder(name), bytes))); // begins at 0
      return { name: port, type, shape: dims === "-" ? [] : dims.split(",").map(Number), data: new ARRAYS[type](content.buffer) };
    });
}
const inputs = (name) => Object.fromEntries(stored(name, "input").map((one) => [one.name, one]));

function same(results, name) {
  const expected = stored(name, "output");
  assert.deepEqual(Object.keys(results), expected.map((one) => one.name));
  for (const one of expected) {
    const { type, shape, data } = results[one.name];
    assert.deepEqual({ type, shape }, { type: one.type, shape: one.shape });
    assert.deepEqual(new Uint8Array(data.buffer), new Uint8Array(one.data.buffer), `${name}: ${one.name}`);
  }
}

const is = (code, text) => (error) => error instanceof TensmithError && error.code === code && error.message.includes(text);

test("gives the bits of C", async () => {
  for (const name of ["pictures", "rows", "words"]) {
    const session = open(name);
    same(session.runSync(inputs(name)), name);
    same(await session.run(inputs(name)), name);
  }
});

test("a module in memory", () => same(new Session(fs.readFileSync(file("rows"))).runSync(inputs("rows")), "rows"));

test("lists inputs and outputs", () => {
  const session = open("words");
  assert.deepEqual(session.inputs, [{ name: "words", type: "i64", dims: ["length"] }, { name: "scale", type: "f32", dims: [] }]);
  assert.deepEqual(session.outputs[0], { name: "vectors", type: "f32", dims: ["length", 12] });
  assert.equal(session.threads, 2);
  assert.equal(typeof session.describe(), "object");
  assert.match(version(), /^\d+\.\d+\.\d+$/);
});

test("one module serves all sizes", () => {
  const session = open("rows");
  for (const n of [0, 1, 3, 200]) {
    const { y } = session.runSync({ x: { data: new Float32Array(n * 16), shape: [n, 16] } });
    assert.deepEqual(y.shape, [n, 32]);
    assert.equal(y.data.length, n * 32);
    assert.ok(y.data.every((value) => Math.abs(value - 1 / 32) < 1e-6));
  }
});

test("an array may begin anywhere in its buffer", () => {
  const session = open("rows");
  const whole = Float32Array.from({ length: 40 }, (_, i) => i / 40);
  const part = whole.subarray(8, 24);
  assert.deepEqual(session.runSync({ x: { data: part, shape: [1, 16] } }), session.runSync({ x: { data: part.slice(), shape: [1, 16] } }));
});

test("results keep their memory, and runs their inputs", async () => {
  const session = open("words");
  const scale = { data: Float32Array.of(1), shape: [] };
  const words = BigInt64Array.of(3n, 1n, 4n);
  const { same: kept } = session.runSync({ words: { data: words }, scale });
  const promised = session.run({ words: { data: words }, scale });
  words.fill(0n);
  assert.deepEqual(kept.data, BigInt64Array.of(3n, 1n, 4n));
  assert.deepEqual((await promised).same.data, BigInt64Array.of(3n, 1n, 4n));
});

test("several runs at a time", async () => {
  const session = open("pictures");
  for (const results of await Promise.all(Array.from({ length: 8 }, () => session.run(inputs("pictures"))))) same(results, "pictures");
});

test("failures are errors in words", async () => {
  assert.throws(() => new Session("/no/such/module.so"), is("IO_ERROR", "/no/such/module.so"));
  assert.throws(() => new Session("a\0b"), is("INVALID_ARGUMENT", "zero byte"));
  assert.throws(() => new Session(Buffer.from("not a module")), is("INVALID_MODULE", ""));
  assert.throws(() => new Session(new Uint8Array(0)), is("INVALID_MODULE", ""));
  assert.throws(() => new Session(7), is("INVALID_ARGUMENT", "path"));
  assert.throws(() => new Session(file("rows"), { threads: "many" }), is("INVALID_ARGUMENT", "threads"));

  const session = open("rows");
  const narrow = { x: { data: new Float32Array(30), shape: [2, 15] } };
  assert.throws(() => session.runSync(narrow), is("INVALID_ARGUMENT", "x"));
  await assert.rejects(session.run(narrow), is("INVALID_ARGUMENT", "x"));
  assert.throws(() => session.runSync({}), is("INVALID_ARGUMENT", "'x'"));
  assert.throws(() => session.runSync(null), is("INVALID_ARGUMENT", "by name"));
  assert.throws(() => session.runSync({ x: narrow.x, z: narrow.x }), is("INVALID_ARGUMENT", "no input 'z'"));
  assert.throws(() => session.runSync({ x: { data: new Float64Array(16), shape: [1, 16] } }), is("INVALID_ARGUMENT", "Float32Array"));
  assert.throws(() => session.runSync({ x: { data: new Float32Array(16), shape: [2, 16] } }), is("INVALID_ARGUMENT", "elements"));
  assert.throws(() => session.runSync({ x: { data: new Float32Array(16), shape: [-1, 16] } }), is("INVALID_ARGUMENT", "shape"));
  assert.throws(() => session.runSync({ x: { data: new Float32Array(0), shape: [2 ** 52, 2 ** 52] } }), is("INVALID_ARGUMENT", "shape"));
});
