import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import tensmith.DataType;
import tensmith.Module;
import tensmith.Session;
import tensmith.TensmithException;
import tensmith.Tensor;

/**
 * The bits of the C API, on the cases in the folder TENSMITH_CASES (tests/bindings/drawn_cases.py makes them). Each method whose
 * name begins with "test" is a test; the exit status says whether all passed. JUnit is not needed.
 */
public final class CasesTest {
  record Stored(String name, String type, long[] shape, byte[] bytes) {}

  static Path folder(String name) {
    String cases = System.getenv("TENSMITH_CASES");
    require(cases != null, "TENSMITH_CASES names the folder of the cases: tests/bindings/drawn_cases.py makes it");
    return Path.of(cases, name);
  }

  static Module load(String name) { return Module.load(folder(name).resolve("module.so")); }

  static List<Stored> stored(String name, String kind) throws Exception {
    List<Stored> result = new ArrayList<>();
    for (String line : Files.readAllLines(folder(name).resolve("case.txt"))) {
      String[] words = line.split(" ");
      if (!words[0].equals(kind))
        continue;
      long[] shape = words[3].equals("-") ? new long[0] : Arrays.stream(words[3].split(",")).mapToLong(Long::parseLong).toArray();
      result.add(new Stored(words[1], words[2], shape, Files.readAllBytes(folder(name).resolve(words[4]))));
    }
    return result;
  }

  static ByteBuffer direct(int bytes) { return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder()); }

  static Tensor[] inputs(String name, Module module) throws Exception {
    List<Tensor> tensors = new ArrayList<>();
    for (Stored from : stored(name, "input"))
      tensors.add(Tensor.on(direct(from.bytes.length).put(from.bytes).flip(), module.inputs().get(tensors.size()).dataType(), from.shape));
    return tensors.toArray(Tensor[]::new);
  }

  static void require(boolean holds, Object found) {
    if (!holds)
      throw new AssertionError(String.valueOf(found));
  }

  static void refused(TensmithException.Code code, String text, Runnable call) {
    try {
      call.run();
    } catch (TensmithException failure) {
      require(failure.code() == code && failure.getMessage().contains(text), failure.code() + ": " + failure.getMessage());
      return;
    }
    throw new AssertionError("nothing was refused: " + text);
  }

  static void testGivesTheBitsOfC() throws Exception {
    for (String name : List.of("pictures", "rows", "words"))
      try (Module module = load(name); Session session = new Session(module, new Session.Options().withThreads(2))) {
        List<Tensor> outputs = session.run(inputs(name, module));
        List<Stored> expected = stored(name, "output");
        require(outputs.size() == expected.size() && session.threads() == 2, outputs);
        for (int i = 0; i < outputs.size(); ++i) {
          Tensor output = outputs.get(i);
          require(Arrays.equals(output.toBytes(), expected.get(i).bytes), name + ": other bits in output " + i);
          require(Arrays.equals(output.shape(), expected.get(i).shape), output);
          require(output.dataType().toString().equals(expected.get(i).type), output);
          require(module.outputs().get(i).name().equals(expected.get(i).name), module.outputs());
        }
      }
  }

  static void testListsInputsAndOutputs() {
    try (Module module = load("words")) {
      require(module.inputs().get(0).dims().equals(List.of("length")), module.inputs());
      require(module.inputs().get(0).dataType() == DataType.I64 && module.inputs().get(0).name().equals("words"), module.inputs());
      require(module.inputs().get(1).dims().isEmpty(), module.inputs());
      require(Arrays.equals(module.outputs().get(0).shape(5), new long[] {5, 12}), module.outputs());
      require(module.describe().startsWith("{"), module.describe());
    }
  }

  static void testOneModuleServesAllSizes() {
    try (Module module = load("rows"); Session session = new Session(module)) {
      for (int n : new int[] {0, 1, 3, 200}) {
        Tensor result = session.run(Tensor.of(new float[n * 16], n, 16)).get(0);
        require(Arrays.equals(result.shape(), new long[] {n, 32}), result);
        for (float value : result.toFloats())
          require(Math.abs(value - 1.0 / 32) < 1e-6, value);
      }
    }
  }

  static void testNeitherInputsNorOutputsAreCopied() {
    try (Module module = load("rows"); Session session = new Session(module)) {
      ByteBuffer given = direct(2 * 16 * 4), written = direct(2 * 32 * 4);
      Tensor x = Tensor.on(given, DataType.F32, 2, 16), y = Tensor.on(written, DataType.F32, 2, 32);
      given.asFloatBuffer().put(3, 7);
      require(x.toFloats()[3] == 7, "the tensor does not lie on the buffer");
      session.runInto(List.of(x), List.of(y));
      require(written.asFloatBuffer().get(0) != 0, "the result is not in the buffer");
      require(Arrays.equals(y.toFloats(), session.run(x).get(0).toFloats()), "other results");
    }
  }

  static void testABufferKeepsTheElements() throws Exception {
    ByteBuffer buffer;
    try (Module module = load("words"); Session session = new Session(module)) {
      Tensor words = Tensor.of(new long[] {3, 1, 4}, 3);
      List<Tensor> outputs = session.run(words, Tensor.of(new float[] {1}));
      words.close();
      buffer = outputs.get(3).buffer();
      outputs.forEach(Tensor::close);
    }
    for (int i = 0; i < 3; ++i) {
      System.gc();
      Thread.sleep(20);
    }
    long[] values = new long[3];
    buffer.asLongBuffer().get(values);
    require(Arrays.equals(values, new long[] {3, 1, 4}), Arrays.toString(values));
  }

  static void testSessionsRunOnSeveralThreads() throws Exception {
    try (Module module = load("pictures"); Session session = new Session(module)) {
      Tensor[] x = inputs("pictures", module);
      byte[] expected = stored("pictures", "output").get(0).bytes;
      List<Thread> threads = new ArrayList<>();
      boolean[] same = new boolean[4];
      for (int i = 0; i < same.length; ++i) {
        int number = i;
        threads.add(new Thread(() -> same[number] = Arrays.equals(session.run(x).get(0).toBytes(), expected)));
      }
      threads.forEach(Thread::start);
      for (Thread thread : threads)
        thread.join();
      for (boolean one : same)
        require(one, Arrays.toString(same));
    }
  }

  static void testFailuresAreExceptionsInWords() {
    refused(TensmithException.Code.IO_ERROR, "/no/such/module.so", () -> Module.load(Path.of("/no/such/module.so")));
    refused(TensmithException.Code.IO_ERROR, "/no/such/\u00fcber\ud83d\ude42.so", () -> Module.load(Path.of("/no/such/\u00fcber\ud83d\ude42.so")));
    refused(TensmithException.Code.INVALID_MODULE, "", () -> Module.load("not a module".getBytes()));
    refused(TensmithException.Code.INVALID_MODULE, "", () -> Module.load(new byte[0]));
    refused(TensmithException.Code.INVALID_ARGUMENT, "6 elements", () -> Tensor.of(new float[5], 2, 3));
    refused(TensmithException.Code.INVALID_ARGUMENT, "shape", () -> Tensor.of(new float[5], -1));
    refused(TensmithException.Code.INVALID_ARGUMENT, "shape", () -> Tensor.zeros(DataType.F32, 1L << 62, 4));
    refused(TensmithException.Code.INVALID_ARGUMENT, "direct", () -> Tensor.on(ByteBuffer.allocate(4), DataType.F32, 1));
    refused(TensmithException.Code.INVALID_ARGUMENT, "aligned", () -> Tensor.on(direct(9).position(1), DataType.F32, 2));
    refused(TensmithException.Code.INVALID_ARGUMENT, "bytes", () -> Tensor.on(direct(9), DataType.F32, 2));
    try (Module module = load("rows"); Session session = new Session(module)) {
      Tensor narrow = Tensor.zeros(DataType.F32, 2, 15);
      refused(TensmithException.Code.INVALID_ARGUMENT, "x", () -> session.run(narrow));
      refused(TensmithException.Code.INVALID_ARGUMENT, "", () -> session.run(Tensor.zeros(DataType.I64, 2, 16)));
      refused(TensmithException.Code.INVALID_ARGUMENT, "", session::run);
      refused(TensmithException.Code.INVALID_ARGUMENT, "f32", narrow::toLongs);
      refused(TensmithException.Code.INVALID_ARGUMENT, "1 outputs", () -> session.runInto(List.of(narrow), List.of()));
    }
  }

  static void testWhatIsClosedIsRefused() {
    Module module = load("rows");
    Session session = new Session(module);
    module.close();
    module.close();
    Tensor x = Tensor.zeros(DataType.F32, 1, 16);
    session.run(x); // goes on without its module
    x.close();
    for (Runnable use : List.<Runnable>of(() -> session.run(x), x::buffer, () -> new Session(module), module::describe)) {
      try {
        use.run();
      } catch (IllegalStateException closed) {
        continue;
      }
      throw new AssertionError("something closed was used");
    }
    session.close();
  }

  public static void main(String[] arguments) throws Exception {
    int failed = 0, passed = 0;
    for (Method method : CasesTest.class.getDeclaredMethods()) {
      if (!method.getName().startsWith("test"))
        continue;
      try {
        method.invoke(null);
        ++passed;
      } catch (java.lang.reflect.InvocationTargetException failure) {
        ++failed;
        System.out.println(method.getName() + " failed:");
        failure.getCause().printStackTrace(System.out);
      }
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 && passed > 0 ? 0 : 1);
  }
}
