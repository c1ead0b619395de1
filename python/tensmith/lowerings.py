"""Tables of what makes the graph's operators of other systems': of PyTorch's, StableHLO's, eager programs'."""


class Table(dict):
    """Functions by the operators' names."""

    def lowers(self, *names):
        """Registers the function that it decorates under each name."""

        def register(function):
            self.update(dict.fromkeys(names, function))
            return function

        return register
