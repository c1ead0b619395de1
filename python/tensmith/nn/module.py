"""The class that models are made of: parameters, buffers and other modules, by the names of attributes."""

import collections
import os

from .. import _eager
from ..numpy.creation import asarray
from ..numpy.dtypes import Tensor


def Parameter(data, requires_grad=True):  # noqa: N802, a class in PyTorch
    """The tensor (of a list or array a new one), as what is learnt."""
    tensor = data if isinstance(data, Tensor) else asarray(data)
    tensor.requires_grad = requires_grad
    return tensor


class Module:
    """Subclasses set parameters (tensors with requires_grad), buffers and modules as attributes, and define `forward`."""

    def __init__(self):
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_unsaved", set())
        self.training = True

    def forward(self, *arguments, **named):
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *arguments, **named):
        return self.forward(*arguments, **named)

    # ---- attributes

    def __setattr__(self, name, value):
        if name in self.__dict__ and not isinstance(value, (Module, Tensor)):  # and so in no table: as `training`, which each step may set
            return object.__setattr__(self, name, value)
        if "_parameters" not in self.__dict__:
            if isinstance(value, (Module, Tensor)):
                raise AttributeError(f"call super().__init__() before {name} is set")
            return object.__setattr__(self, name, value)
        own = self._table_for(name, value)
        for table in (self._parameters, self._buffers, self._modules):
            if table is not own:
                table.pop(name, None)
        if own is None:
            return object.__setattr__(self, name, value)
        self.__dict__.pop(name, None)
        own[name] = value

    def _table_for(self, name, value):
        if isinstance(value, Module):
            return self._modules
        if isinstance(value, Tensor):
            return self._parameters if value.requires_grad else self._buffers if name in self._buffers else None
        return next((table for table in (self._parameters, self._buffers, self._modules) if value is None and name in table), None)

    def __getattr__(self, name):
        for table in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(table, ()):
                return self.__dict__[table][name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name):
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]

    def register_parameter(self, name, tensor):
        """None: there may be one, and is none."""
        self.__dict__.pop(name, None)
        self._parameters[name] = tensor

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor that is no parameter; persistent: it is saved."""
        self.__dict__.pop(name, None)
        self._buffers[name] = tensor
        self._unsaved.discard(name) if persistent else self._unsaved.add(name)

    def add_module(self, name, module):
        self.__dict__.pop(name, None)
        self._modules[name] = module

    # ---- what there is

    def named_modules(self, prefix="", seen=None):
        """This one first; each once."""
        seen = set() if seen is None else seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self):
        return (module for _, module in self.named_modules())

    def named_children(self):
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self):
        return (module for _, module in self.named_children())

    def _named(self, table, recurse):
        for prefix, module in self.named_modules() if recurse else [("", self)]:
            for name, tensor in getattr(module, table).items():
                if tensor is not None:
                    yield module, f"{prefix}.{name}" if prefix else name, tensor

    def named_parameters(self, recurse=True):
        """Each once, by its first name."""
        seen = []
        for _, name, tensor in self._named("_parameters", recurse):
            if not any(tensor is other for other in seen):
                seen.append(tensor)
                yield name, tensor

    def parameters(self, recurse=True):
        return (tensor for _, tensor in self.named_parameters(recurse))

    def named_buffers(self, recurse=True):
        return ((name, tensor) for _, name, tensor in self._named("_buffers", recurse))

    def buffers(self, recurse=True):
        return (tensor for _, tensor in self.named_buffers(recurse))

    # ---- what is done to all

    def to(self, device):
        """Moves parameters, with their gradients, and buffers to the device, and gives the module. Do so before an optimiser's first step, which makes its states
        where the parameters lie then."""
        for tensor in [*self.parameters(), *self.buffers()]:
            _eager.move_to(tensor, device)
        return self

    def apply(self, function):
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def train(self, mode=True):
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, wanted=True):
        for tensor in self.parameters():
            tensor.requires_grad = wanted
        return self

    def zero_grad(self):
        for tensor in self.parameters():
            if tensor.requires_grad:
                tensor.grad = None

    # ---- saving

    def state_dict(self):
        """Parameters and persistent buffers by name: the tensors themselves, which later steps change."""
        state = collections.OrderedDict()
        for prefix, module in self.named_modules_again():
            for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
                if tensor is not None and name not in module._unsaved:
                    state[f"{prefix}.{name}" if prefix else name] = tensor
        return state

    def named_modules_again(self, prefix=""):
        """A module that is there by several names is given by each, as a saved file has them."""
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules_again(f"{prefix}.{name}" if prefix else name)

    def load_state_dict(self, state, strict=True):
        """Copies tensors (or arrays) of the names and shapes that the module has. strict: there must be no other name, and all."""
        own = self.state_dict()
        missing, unexpected = [name for name in own if name not in state], [name for name in state if name not in own]
        if strict and (missing or unexpected):
            raise KeyError(f"the module's names and the state's differ: missing {missing}, unexpected {unexpected}")
        for name, tensor in own.items():
            if name in state:
                value = asarray(state[name])
                if value.shape != tensor.shape:
                    raise ValueError(f"'{name}' has the shape {value.shape} in the state, and {tensor.shape} in the module")
                tensor[...] = _eager.cast(value, tensor.dtype)
        return missing, unexpected

    def save(self, path):
        """The state as a file of safetensors."""
        _eager.write_safetensors(os.fspath(path), list(self.state_dict().items()))

    def load(self, path, strict=True):
        """The state of a file of safetensors."""
        return self.load_state_dict(dict(_eager.read_safetensors(os.fspath(path))), strict)

    # ---- printing

    def extra_repr(self):
        return ""

    def __repr__(self):
        lines = [self.extra_repr()] if self.extra_repr() else []
        inner = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()]
        if not inner:
            return f"{type(self).__name__}({', '.join(lines)})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines + inner) + "\n)"
