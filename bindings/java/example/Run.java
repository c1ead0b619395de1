import java.nio.file.Path;
import java.util.List;
import tensmith.Module;
import tensmith.Session;
import tensmith.Tensor;

/** Runs a module on zeros: `Run MODULE.so [SIZE]`. Open sizes are SIZE, or 1. */
public final class Run {
  private Run() {}

  public static void main(String[] arguments) {
    if (arguments.length < 1) {
      System.err.println("usage: Run MODULE.so [SIZE]");
      System.exit(2);
    }
    long open = arguments.length > 1 ? Long.parseLong(arguments[1]) : 1;
    try (Module module = Module.load(Path.of(arguments[0])); Session session = new Session(module)) {
      Tensor[] inputs =
          module.inputs().stream().map(port -> Tensor.zeros(port.dataType(), port.shape(open))).toArray(Tensor[]::new);
      List<Tensor> outputs = session.run(inputs);
      for (int i = 0; i < outputs.size(); ++i)
        System.out.println(module.outputs().get(i).name() + ": " + outputs.get(i));
    } catch (tensmith.TensmithException failure) {
      System.err.println("error: " + failure.getMessage());
      System.exit(1);
    }
  }
}
