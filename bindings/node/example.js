"use strict";
// Runs a module on zeros: `node example.js MODULE.so [SIZE]`. Open sizes are SIZE, or 1.

const { Session, TensmithError } = require("./index.js");

const ARRAYS = { f32: Float32Array, f64: Float64Array, i32: Int32Array, i64: BigInt64Array, u8: Uint8Array, i8: Int8Array };

function zeros(port, open) {
  const shape = port.dims.map((dim) => (typeof dim === "number" ? dim : open));
  return { shape, data: new (ARRAYS[port.type] || Uint8Array)(shape.reduce((product, size) => product * size, 1)) };
}

async function main([file, open = "1"]) {
  if (!file) {
    console.error("usage: node example.js MODULE.so [SIZE]");
    return 2;
  }
  const session = new Session(file);
  const inputs = Object.fromEntries(session.inputs.map((port) => [port.name, zeros(port, Number(open))]));
  for (const [name, { type, shape }] of Object.entries(await session.run(inputs)))
    console.log(`${name}: ${type}[${shape.join(", ")}]`);
  return 0;
}

main(process.argv.slice(2)).then((status) => { process.exitCode = status; }, (error) => {
  if (!(error instanceof TensmithError)) throw error;
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
});
