// Types of the package `tensmith`.

/** A type of elements, as "f32"; others than these are given as bytes. */
export type DataType =
  | "f32" | "f64" | "i8" | "u8" | "i16" | "u16" | "i32" | "u32" | "i64" | "u64" | "bool" | "f16" | "bf16" | (string & {});

/** Elements: of f16 and bf16 their bits, of bool 0 and 1. */
export type Elements =
  | Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array;

/** Row-major elements with their shape. */
export interface Tensor<T extends Elements = Elements> {
  readonly type: DataType;
  readonly shape: readonly number[];
  readonly data: T;
}

/** What a run is given: the elements' type is that of the input. Without a shape it is a vector. */
export interface Input {
  readonly shape?: readonly number[];
  readonly data: Elements;
}

export interface Port {
  readonly name: string;
  readonly type: DataType;
  /** A number, or a symbol as "batch" where any size will do that agrees with the others of it; null: nothing is known. */
  readonly dims: readonly (number | string)[] | null;
}

export interface Options {
  /** 0: as many as processors. */
  threads?: number;
  /** A run fails where a NaN or an infinity comes up, and says where. */
  checkFinite?: boolean;
  /** Bytes that runs may hold at a time. */
  memoryLimit?: number;
  /** Seconds of one run. */
  timeLimit?: number;
  /** Of random operators that have none of their own. */
  seed?: bigint;
}

/** Failures have a code and a message that says what to do. */
export class TensmithError extends Error {
  readonly code:
    | "INVALID_ARGUMENT" | "INVALID_MODEL" | "INVALID_MODULE" | "UNSUPPORTED" | "RESOURCE_EXHAUSTED" | "IO_ERROR" | "INTERNAL";
}

/** A module ready to run. */
export class Session {
  /**
   * Of a module's path or bytes. A module holds native code, which a session runs: take modules only from those that you
   * would take a shared library from.
   */
  constructor(module: string | Uint8Array, options?: Options);
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly threads: number;
  /** Runs once, on the thread that calls: the inputs are read where they are. Outputs by name. */
  runSync(inputs: Readonly<Record<string, Input>>): Record<string, Tensor>;
  /** Runs once, on another thread: the inputs are copied. Outputs by name. */
  run(inputs: Readonly<Record<string, Input>>): Promise<Record<string, Tensor>>;
  /** All else that is known of the module: producer, target, kernels, memory. */
  describe(): unknown;
}

/** "0.1.0" of the library in use. */
export function version(): string;
