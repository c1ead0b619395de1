package tensmith;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.util.function.LongConsumer;

/** What tensmith_jni.c defines, and handles of it. */
final class Native {
  static final Cleaner CLEANER = Cleaner.create();

  static {
    String path = System.getProperty("tensmith.library");
    if (path == null)
      System.loadLibrary("tensmith_jni");
    else
      System.load(path);
  }

  private Native() {}

  static native byte[] version();

  static native long moduleLoad(byte[] path);
  static native long moduleLoadBytes(byte[] bytes);
  static native void moduleFree(long module);
  static native int portCount(long module, boolean outputs);
  static native byte[] portName(long module, boolean outputs, int index);
  /** Kind, type and rank. */
  static native long[] portFacts(long module, boolean outputs, int index);
  static native byte[] portDim(long module, boolean outputs, int index, int dim);
  static native byte[] describe(long module);

  static native long sessionCreate(long module, int threads, boolean checkFinite, long memoryLimit, double timeLimit, long[] seed);
  static native void sessionFree(long session);
  static native int sessionThreads(long session);
  /** Fills what is 0 in `outputs`. */
  static native void sessionRun(long session, long[] inputs, long[] outputs);

  static native long tensorCreate(int type, long[] shape);
  /** On the direct buffer's memory from its beginning; -1 where that is not aligned for the type. */
  static native long tensorBorrow(int type, long[] shape, ByteBuffer memory, int alignment);
  static native void tensorRetain(long tensor);
  static native void tensorFree(long tensor);
  static native int tensorType(long tensor);
  static native long[] tensorShape(long tensor);
  /** A direct buffer of the elements; null where there is none. */
  static native ByteBuffer tensorBuffer(long tensor, long bytes);

  /**
   * A handle that is freed when it has been closed and nobody uses it, whichever is later; also when what holds it is
   * forgotten. Its use after that is an exception.
   */
  static final class Handle implements Runnable, AutoCloseable {
    private final LongConsumer free;
    private long address;
    private int users;
    private boolean closed;

    Handle(Object holder, long address, LongConsumer free) {
      this.address = address;
      this.free = free;
      CLEANER.register(holder, this);
    }

    synchronized long acquire() {
      if (closed)
        throw new IllegalStateException("it has been closed");
      ++users;
      return address;
    }

    synchronized void release() {
      if (--users == 0 && closed)
        freeOnce();
    }

    @Override public synchronized void close() {
      closed = true;
      if (users == 0)
        freeOnce();
    }

    @Override public void run() { close(); }

    private void freeOnce() {
      long freed = address;
      address = 0;
      if (freed != 0)
        free.accept(freed);
    }
  }
}
