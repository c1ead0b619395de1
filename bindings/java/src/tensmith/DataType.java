package tensmith;

/** A type of elements, numbered as ONNX numbers them. Elements of 4 and 2 bits take one byte each. */
public enum DataType {
  UNDEFINED(0), F32(4), U8(1), I8(1), U16(2), I16(2), I32(4), I64(8), STRING(0), BOOL(1), F16(2), F64(8), U32(4), U64(8),
  C64(8), C128(16), BF16(2), F8E4M3FN(1), F8E4M3FNUZ(1), F8E5M2(1), F8E5M2FNUZ(1), U4(1), I4(1), F4E2M1(1), F8E8M0(1),
  U2(1), I2(1);

  private static final DataType[] ALL = values();
  private final int bytes;

  DataType(int bytes) { this.bytes = bytes; }

  /** Of one element; 0 of strings. */
  public int bytes() { return bytes; }

  /** A type that is newer than this package is UNDEFINED. */
  static DataType of(int number) { return number < ALL.length && number >= 0 ? ALL[number] : UNDEFINED; }

  /** "f32". */
  @Override public String toString() { return name().toLowerCase(java.util.Locale.ROOT); }
}
