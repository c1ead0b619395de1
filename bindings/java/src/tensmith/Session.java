package tensmith;

import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A module ready to run. Several threads may run it at the same time. */
public final class Session implements AutoCloseable {
  /**
   * What a session may use.
   *
   * @param threads 0: as many as processors
   * @param checkFinite a run fails where a NaN or an infinity comes up, and says where
   * @param memoryLimit bytes that runs may hold at a time; 0: the machine's
   * @param timeLimit seconds of one run; 0: an hour
   * @param seed of random operators that have none of their own; null: another in each run
   */
  public record Options(int threads, boolean checkFinite, long memoryLimit, double timeLimit, Long seed) {
    public Options() { this(0, false, 0, 0, null); }
    public Options withThreads(int count) { return new Options(count, checkFinite, memoryLimit, timeLimit, seed); }
  }

  private final Native.Handle handle;
  private final int outputs;

  public Session(Module module) { this(module, new Options()); }

  public Session(Module module, Options options) {
    Stream.concat(module.inputs().stream(), module.outputs().stream()).filter(port -> !port.isTensor()).findFirst().ifPresent(port -> {
      throw new TensmithException(TensmithException.Code.UNSUPPORTED, "'" + port.name() +
          "' is a sequence, a map, an optional value or of strings: use the C API for this module");
    });
    outputs = module.outputs().size();
    long address = module.handle.acquire();
    try {
      handle = new Native.Handle(this, Native.sessionCreate(address, options.threads, options.checkFinite, options.memoryLimit,
          options.timeLimit, options.seed == null ? null : new long[] {options.seed}), Native::sessionFree);
    } finally {
      module.handle.release();
    }
  }

  public int threads() {
    long address = handle.acquire();
    try {
      return Native.sessionThreads(address);
    } finally {
      handle.release();
    }
  }

  /** Runs once: a tensor for each input, in order, gives one for each output. */
  public List<Tensor> run(Tensor... inputs) {
    long[] results = new long[outputs];
    call(List.of(inputs), List.of(), results);
    List<Tensor> tensors = new ArrayList<>();
    for (long result : results)
      tensors.add(Tensor.own(result));
    return tensors;
  }

  /** Runs once and writes the results into the outputs, whose types and shapes must be those of the results. */
  public void runInto(List<Tensor> inputs, List<Tensor> outputs) {
    if (outputs.size() != this.outputs)
      throw TensmithException.invalid("the module has " + this.outputs + " outputs, but " + outputs.size() + " tensors were given for them");
    call(inputs, outputs, new long[outputs.size()]);
  }

  private void call(List<Tensor> inputs, List<Tensor> outputs, long[] results) {
    List<Native.Handle> held = new ArrayList<>();
    try {
      long session = hold(handle, held);
      long[] given = new long[inputs.size()];
      for (int i = 0; i < given.length; ++i)
        given[i] = hold(inputs.get(i).handle, held);
      for (int i = 0; i < outputs.size(); ++i)
        results[i] = hold(outputs.get(i).handle, held);
      Native.sessionRun(session, given, results);
    } finally {
      held.forEach(Native.Handle::release);
      Reference.reachabilityFence(inputs); // with the buffers that they lie on
      Reference.reachabilityFence(outputs);
    }
  }

  private static long hold(Native.Handle handle, List<Native.Handle> held) {
    long address = handle.acquire();
    held.add(handle);
    return address;
  }

  @Override public void close() { handle.close(); }
}
