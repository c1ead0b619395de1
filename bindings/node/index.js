"use strict";
// Loads and runs modules that Tensmith has compiled. What is checked here is for words; the addon checks again what memory
// safety depends on.

const path = require("node:path");
const native = require(process.env.TENSMITH_NODE || path.join(__dirname, "build", "tensmith.node"));

class TensmithError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "TensmithError";
    this.code = code;
  }
}

function invalid(message) {
  return new TensmithError("INVALID_ARGUMENT", message);
}

// The addon throws errors that have the code's name.
function translated(error) {
  return error.tensmith ? new TensmithError(error.tensmith, error.message) : error;
}

function calling(call) {
  try {
    return call();
  } catch (error) {
    throw translated(error);
  }
}

const ARRAYS = {
  f32: Float32Array, f64: Float64Array, i8: Int8Array, u8: Uint8Array, i16: Int16Array, u16: Uint16Array, i32: Int32Array,
  u32: Uint32Array, i64: BigInt64Array, u64: BigUint64Array, bool: Uint8Array, f16: Uint16Array, bf16: Uint16Array,
};

const arrayOf = (type) => ARRAYS[type] || Uint8Array;

function checkedPorts(ports) {
  for (const port of ports)
    if (!port.isTensor)
      throw new TensmithError("UNSUPPORTED",
        `'${port.name}' is a sequence, a map, an optional value or of strings: use the C API for this module`);
  return Object.freeze(ports.map(({ name, type, dims }) => Object.freeze({
    name, type, dims: dims && Object.freeze(dims.map((dim) => (/^\d+$/.test(dim) ? Number(dim) : dim))),
  })));
}

// The elements and the shape of one input.
function flattened(port, input) {
  const expected = arrayOf(port.type);
  if (!input || !(input.data instanceof expected))
    throw invalid(`input '${port.name}' is to be { data: ${expected.name}, shape: [...] }`);
  const shape = input.shape === undefined ? [input.data.length] : Array.from(input.shape);
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0))
    throw invalid(`input '${port.name}': no tensor can have the shape [${shape.join(", ")}]`);
  return { data: input.data, shape: BigInt64Array.from(shape, BigInt) };
}

class Session {
  #handle;

  constructor(module, options = {}) {
    if (typeof module !== "string" && !(module instanceof Uint8Array))
      throw invalid("a module is given by its path, or as a Uint8Array");
    const { threads = 0, checkFinite = false, memoryLimit = 0, timeLimit = 0, seed = null } = options;
    if (!Number.isInteger(threads) || !Number.isSafeInteger(memoryLimit) || typeof timeLimit !== "number" ||
        (seed !== null && typeof seed !== "bigint"))
      throw invalid("threads and memoryLimit are integers, timeLimit is a number, seed is a BigInt");
    this.#handle = calling(() => native.open(module, threads, Boolean(checkFinite), memoryLimit, timeLimit, seed));
    this.inputs = checkedPorts(native.ports(this.#handle, false));
    this.outputs = checkedPorts(native.ports(this.#handle, true));
    this.threads = native.threads(this.#handle);
  }

  #given(inputs) {
    if (inputs === null || typeof inputs !== "object")
      throw invalid("inputs are given by name: { NAME: { data, shape } }");
    const names = this.inputs.map((port) => port.name);
    const other = Object.keys(inputs).find((name) => !names.includes(name));
    if (other !== undefined)
      throw invalid(`there is no input '${other}'; there are: ${names.join(", ")}`);
    return this.inputs.map((port) => flattened(port, inputs[port.name]));
  }

  #named(results) {
    return Object.fromEntries(this.outputs.map((port, index) => {
      const { type, shape, data } = results[index];
      return [port.name, { type, shape: Array.from(shape, Number), data: new (arrayOf(type))(data) }];
    }));
  }

  runSync(inputs) {
    const given = this.#given(inputs);
    return this.#named(calling(() => native.run(this.#handle, given, false)));
  }

  async run(inputs) {
    const given = this.#given(inputs);
    try {
      return this.#named(await native.run(this.#handle, given, true));
    } catch (error) {
      throw translated(error);
    }
  }

  describe() {
    return JSON.parse(calling(() => native.describe(this.#handle)));
  }
}

module.exports = { Session, TensmithError, version: native.version };
