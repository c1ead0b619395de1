package tensmith;

import java.nio.charset.StandardCharsets;

/** A failure; its message says what to do. */
public final class TensmithException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What kind of failure it is. */
  public enum Code { OK, INVALID_ARGUMENT, INVALID_MODEL, INVALID_MODULE, UNSUPPORTED, RESOURCE_EXHAUSTED, IO_ERROR, INTERNAL }

  private final Code code;

  TensmithException(Code code, String message) {
    super(message);
    this.code = code;
  }

  /** Called by the native library. */
  TensmithException(int code, byte[] message) {
    this(code > 0 && code < Code.values().length ? Code.values()[code] : Code.INTERNAL, new String(message, StandardCharsets.UTF_8));
  }

  public Code code() { return code; }

  static TensmithException invalid(String message) { return new TensmithException(Code.INVALID_ARGUMENT, message); }
}
