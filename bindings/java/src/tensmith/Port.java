package tensmith;

import java.util.List;

/**
 * An input or an output of a module.
 *
 * @param dims a number, a symbol as "batch", or an expression of symbols for each dimension; null where not even their
 *     number is known. A symbol may be any size that agrees with the others of it.
 * @param isTensor false: a sequence, a map, an optional value, or of strings, which this package does not give or take
 */
public record Port(String name, DataType dataType, List<String> dims, boolean isTensor) {
  /** The shape with `open` in the place of what is no number. */
  public long[] shape(long open) {
    if (dims == null)
      throw TensmithException.invalid("nothing is known of the shape of '" + name + "'");
    return dims.stream().mapToLong(dim -> dim.matches("\\d+") ? Long.parseLong(dim) : open).toArray();
  }
}
