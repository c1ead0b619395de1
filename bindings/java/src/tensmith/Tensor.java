package tensmith;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * A type of elements, a shape, and row-major elements outside of Java's heap. Elements must not be written while a run
 * reads them.
 */
public final class Tensor implements AutoCloseable {
  final Native.Handle handle;
  private final DataType dataType;
  private final long[] shape;
  private final ByteBuffer memory; // that it lies on; null: on the library's

  private Tensor(long address, ByteBuffer memory) {
    this.memory = memory;
    dataType = DataType.of(Native.tensorType(address));
    shape = Native.tensorShape(address);
    handle = new Native.Handle(this, address, Native::tensorFree);
  }

  /** Takes the handle over. */
  static Tensor own(long address) { return new Tensor(address, null); }

  /** Of the library's memory, all zero. */
  public static Tensor zeros(DataType dataType, long... shape) {
    count(shape);
    Tensor tensor = own(Native.tensorCreate(dataType.ordinal(), shape));
    ByteBuffer bytes = tensor.buffer();
    bytes.put(new byte[bytes.remaining()]);
    return tensor;
  }

  /** A copy of the array. */
  public static Tensor of(float[] data, long... shape) {
    Tensor tensor = sized(DataType.F32, data.length, shape);
    tensor.buffer().asFloatBuffer().put(data);
    return tensor;
  }
  /** A copy of the array. */
  public static Tensor of(double[] data, long... shape) {
    Tensor tensor = sized(DataType.F64, data.length, shape);
    tensor.buffer().asDoubleBuffer().put(data);
    return tensor;
  }
  /** A copy of the array. */
  public static Tensor of(int[] data, long... shape) {
    Tensor tensor = sized(DataType.I32, data.length, shape);
    tensor.buffer().asIntBuffer().put(data);
    return tensor;
  }
  /** A copy of the array. */
  public static Tensor of(long[] data, long... shape) {
    Tensor tensor = sized(DataType.I64, data.length, shape);
    tensor.buffer().asLongBuffer().put(data);
    return tensor;
  }
  /** A copy of the array. */
  public static Tensor of(byte[] data, long... shape) {
    Tensor tensor = sized(DataType.I8, data.length, shape);
    tensor.buffer().put(data);
    return tensor;
  }

  /**
   * On what is left of the direct buffer, without a copy: the elements' bytes in native order, aligned as they are. A run
   * writes its results there where it is given the tensor for an output.
   */
  public static Tensor on(ByteBuffer direct, DataType dataType, long... shape) {
    if (!direct.isDirect() || direct.isReadOnly())
      throw TensmithException.invalid("the buffer must be a direct one that can be written (ByteBuffer.allocateDirect)");
    if (dataType.bytes() == 0 || Math.multiplyExact(count(shape), dataType.bytes()) != direct.remaining())
      throw TensmithException.invalid(direct.remaining() + " bytes are no " + dataType + Arrays.toString(shape));
    ByteBuffer memory = direct.slice().order(ByteOrder.nativeOrder());
    long address = Native.tensorBorrow(dataType.ordinal(), shape, memory, Math.min(dataType.bytes(), 8));
    if (address == -1)
      throw TensmithException.invalid("the buffer must be aligned to " + dataType.bytes() + " bytes (ByteBuffer.alignedSlice)");
    return new Tensor(address, memory);
  }

  public DataType dataType() { return dataType; }
  public long[] shape() { return shape.clone(); }
  /** The number of elements. */
  public long size() { return count(shape); }

  /**
   * The elements' bytes, without a copy, in native order: `buffer().asFloatBuffer()` are those of an f32. The buffer, and
   * what is made of it, keeps them alive past close().
   */
  public ByteBuffer buffer() {
    if (memory != null)
      return memory.duplicate().order(ByteOrder.nativeOrder());
    long bytes = size() * dataType.bytes();
    if (bytes > Integer.MAX_VALUE)
      throw new TensmithException(TensmithException.Code.UNSUPPORTED, "a buffer has at most 2 GiB, but the tensor has " + bytes + " bytes");
    long address = handle.acquire();
    try {
      ByteBuffer buffer = bytes == 0 ? null : Native.tensorBuffer(address, bytes);
      if (buffer == null)
        return ByteBuffer.allocateDirect(0);
      Native.tensorRetain(address);
      Native.CLEANER.register(buffer, () -> Native.tensorFree(address));
      return buffer.order(ByteOrder.nativeOrder());
    } finally {
      handle.release();
    }
  }

  /** A copy of the elements of an f32. */
  public float[] toFloats() {
    expect(DataType.F32);
    float[] values = new float[Math.toIntExact(size())];
    buffer().asFloatBuffer().get(values);
    return values;
  }
  /** A copy of the elements of an i64. */
  public long[] toLongs() {
    expect(DataType.I64);
    long[] values = new long[Math.toIntExact(size())];
    buffer().asLongBuffer().get(values);
    return values;
  }
  /** A copy of the elements' bytes, whatever their type. A bool is one byte, 0 or 1. */
  public byte[] toBytes() {
    byte[] values = new byte[Math.toIntExact(size() * dataType.bytes())];
    buffer().get(values);
    return values;
  }

  @Override public void close() { handle.close(); }
  @Override public String toString() { return dataType + Arrays.toString(shape); }

  private void expect(DataType expected) {
    if (dataType != expected)
      throw TensmithException.invalid("the tensor's elements are " + dataType + ", not " + expected);
  }

  private static Tensor sized(DataType dataType, int length, long[] shape) {
    if (count(shape) != length)
      throw TensmithException.invalid("the shape " + Arrays.toString(shape) + " has " + count(shape) +
                                      " elements, but the array has " + length);
    return own(Native.tensorCreate(dataType.ordinal(), shape));
  }

  private static long count(long[] shape) {
    long count = 1;
    for (long size : shape) {
      if (size < 0 || Math.multiplyHigh(count, size) != 0 || count * size < 0)
        throw TensmithException.invalid("no tensor can have the shape " + Arrays.toString(shape));
      count *= size;
    }
    return count;
  }
}
