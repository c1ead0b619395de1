package tensmith;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** What `tensmith compile` wrote. May be used by several threads at once. */
public final class Module implements AutoCloseable {
  final Native.Handle handle;
  private final List<Port> inputs, outputs;

  private Module(long address) {
    handle = new Native.Handle(this, address, Native::moduleFree);
    inputs = ports(address, false);
    outputs = ports(address, true);
  }

  /**
   * Reads a module, and checks version, integrity and what it needs of the processor. A module holds native code, which a
   * session runs: load modules only from those that you would take a shared library from.
   */
  public static Module load(Path path) {
    return new Module(Native.moduleLoad((path + "\0").getBytes(StandardCharsets.UTF_8)));
  }

  /** The same of a module in memory, which is copied. */
  public static Module load(byte[] bytes) { return new Module(Native.moduleLoadBytes(bytes)); }

  /** "0.1.0" of the library in use. */
  public static String libraryVersion() { return text(Native.version()); }

  public List<Port> inputs() { return inputs; }
  public List<Port> outputs() { return outputs; }

  /** All else that is known of it, as JSON: producer, target, kernels, memory. */
  public String describe() {
    long address = handle.acquire();
    try {
      return text(Native.describe(address));
    } finally {
      handle.release();
    }
  }

  /** Sessions go on. */
  @Override public void close() { handle.close(); }

  private static String text(byte[] bytes) { return new String(bytes, StandardCharsets.UTF_8); }

  private static List<Port> ports(long module, boolean outputs) {
    List<Port> ports = new ArrayList<>();
    for (int i = 0, count = Native.portCount(module, outputs); i < count; ++i) {
      long[] facts = Native.portFacts(module, outputs, i);
      DataType type = DataType.of((int)facts[1]);
      List<String> dims = facts[2] < 0 ? null : new ArrayList<>();
      for (int j = 0; j < facts[2]; ++j)
        dims.add(text(Native.portDim(module, outputs, i, j)));
      ports.add(new Port(text(Native.portName(module, outputs, i)), type, dims == null ? null : List.copyOf(dims),
                         facts[0] == 0 && type != DataType.STRING));
    }
    return List.copyOf(ports);
  }
}
