"""Branches and loops: regions of the graph, which may read the values around."""

from .. import Error
from .graph import lowers


def _branch(g, condition, regions):
    """The values of the first region where the condition holds, else of the second; each is a function without arguments."""
    g.builder.begin_if(condition.number, g.location)
    numbers = []
    for region in regions:
        numbers = g.builder.end([value.number for value in region()])
    return [g.value(number) for number in numbers]


@lowers("stablehlo.if")
def _if(g, operation, condition):
    region = g.region
    return _branch(g, g.reshape(condition, []), [lambda part=part: region(part, []) for part in operation.regions])


@lowers("stablehlo.case")
def _case(g, operation, index):
    """One branch after the other; an index that there is none for takes the last."""
    regions, region = list(operation.regions), g.region

    def from_(i):
        if i == len(regions) - 1:
            return region(regions[i], [])
        condition = g.op("equal", [g.reshape(index, []), g.scalar(i, index.dtype)])
        return _branch(g, condition, [lambda: region(regions[i], []), lambda: from_(i + 1)])

    return from_(0)


@lowers("stablehlo.while")
def _while(g, operation, *carried):
    condition, body = operation.regions
    region = g.region
    [goes_on] = region(condition, list(carried))
    arguments = g.builder.begin_loop(None, g.reshape(goes_on, []).number, [value.number for value in carried], g.location)
    results = region(body, [g.value(number) for number in arguments[2:]])
    for before, after in zip(carried, results):
        if before.shape != after.shape:
            raise Error(f"sizes change from {list(before.shape)} to {list(after.shape)} in an iteration")
    [goes_on] = region(condition, results)
    numbers = g.builder.end([g.reshape(goes_on, []).number, *(value.number for value in results)])
    return [g.value(number) for number in numbers]
