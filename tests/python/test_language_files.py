"""Programs of several files: what is imported, what it may see, and what is refused.

What would break these: a name of the program that an imported file takes for an operator, a file outside of the folder that is
read, a message that names another file.
"""

import pathlib
import re

import numpy as np
import pytest
import tensmith as ts


FILES = {
    "main.tsm": 'import "layers/dense.tsm"\nimport "layers/norms.tsm"\n\n'
                "fn main(x: f32[n, 2]) = scaled(dense(x))\n",
    "layers/dense.tsm": '// A layer.\nimport "norms.tsm"\n\nlet w = load("w.npy")\n\n'
                        "fn dense(x) = half(x @ w)\n\nfn main(x: f32[n, 2]) = dense(x)\n",
    "layers/norms.tsm": "type Scale = Scale(f32[])\n\nfn half(x) = x / 2.0\n\n"
                        "fn scaled(x) = match Scale(3.0) { Scale(k) => x * k }\n",
}


@pytest.fixture
def folder(tmp_path):
    """Makes the files, some of them changed, and names the first."""
    def make(**changed):
        (tmp_path / "layers").mkdir(exist_ok=True)
        np.save(tmp_path / "layers" / "w.npy", np.eye(2, dtype=np.float32))
        for name, text in {**FILES, **{key.replace("_", "/") + ".tsm": text for key, text in changed.items()}}.items():
            (tmp_path / name).write_text(text)
        return tmp_path / "main.tsm"

    return make


def test_programs_import_files(folder):
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    path = folder()
    np.testing.assert_allclose(ts.compile(path, threads=1)(x), x * 1.5)
    np.testing.assert_allclose(ts.compile(path.parent / "layers" / "dense.tsm", threads=1)(x), x / 2)


@pytest.mark.parametrize("changed, message", [
    ({"layers_norms": "fn half(x) = x / y\nfn scaled(x) = x\n"}, "layers/norms.tsm:1:18: there is nothing with the name 'y'"),
    ({"layers_norms": 'import "dense.tsm"\nfn half(x) = x\nfn scaled(x) = x\n'},
     "layers/norms.tsm:1:8: 'dense.tsm' can't be imported: it imports this file itself"),
    ({"layers_norms": 'import "../main.tsm"\n'}, "layers/norms.tsm:1:8: '../main.tsm' can't be imported: it imports"),
    ({"main": 'import "main.tsm"\nfn main(x: f32[]) = x\n'}, "main.tsm:1:8: 'main.tsm' can't be imported: it imports"),
    ({"main": 'import "../other.tsm"\nfn main(x: f32[]) = x\n'}, "main.tsm:1:8: '../other.tsm' can't be imported: only"),
    ({"main": 'import "/etc/hostname"\nfn main(x: f32[]) = x\n'}, "main.tsm:1:8: '/etc/hostname' can't be imported: only"),
    ({"main": 'import "layers"\nfn main(x: f32[]) = x\n'}, "main.tsm:1:8: 'layers' can't be imported: it is no file"),
    ({"main": 'import "none.tsm"\nfn main(x: f32[]) = x\n'}, "main.tsm:1:8: 'none.tsm' can't be imported: No such file"),
    ({"main": 'import "tensmith/none.tsm"\nfn main(x: f32[]) = x\n'},
     "main.tsm:1:8: 'tensmith/none.tsm' can't be imported: Tensmith has no such module; it has tensmith/activations.tsm, "),
    ({"main": 'import "tensmith/dense.tsm"\nfn dense(x) = x\nfn main(x: f32[]) = x\n'}, "main.tsm:2:4: 'dense' is there already"),
    ({"main": "import layers\nfn main(x: f32[]) = x\n"}, "main.tsm:1:8: expected the file's path in quotes"),
    ({"layers_norms": FILES["layers/norms.tsm"] + "fn dense(x) = x\n"}, "dense"),
    ({"main": FILES["main.tsm"] + "fn more(x) = x\n", "layers_norms": "fn half(x) = more(x)\nfn scaled(x) = x\n"},
     "layers/norms.tsm:1:14: 'more' is neither in this file nor in one that it imports; import the one that has it"),
    ({"layers_norms": "fn half(x) = x * w\nfn scaled(x) = x\n"}, "layers/norms.tsm:1:18: 'w' is neither in this file"),
    ({"main": 'import "layers/norms.tsm"\nlet tanh = 1.0\nfn main(x: f32[]) = half(x)\n', "layers_norms": "fn at(f, x) = f(x)\nfn half(x) = at(tanh, x)\n"},
     "layers/norms.tsm:2:17: an operator is no value; write fn(x) => graph.tanh(x)"),
    ({"main": 'import "layers/norms.tsm"\nlet wide = 3.0\nfn main(x: f32[4]) = half(x)\n',
      "layers_norms": "fn half(x: f32[n]) = { let f = fn(y: f32[wide]) => y; f(x) * wide }\n"},
     "layers/norms.tsm:1:62: 'wide' is neither in this file nor in one that it imports"),
    ({"main": "let abs = 1.0\nfn main(x: f32[]) = abs(x)\n"}, "is no function: it is number[]; the operator of that name is graph.abs"),
    ({"main": "let graph.abs = 1.0\nfn main(x: f32[]) = x\n"}, "main.tsm:1:5: expected the constant's name"),
    ({"main": "fn main(x: f32[]) = graph.abz(x)\n"}, "there is nothing with the name 'graph.abz'"),
])
def test_imports_that_are_refused(folder, changed, message):
    with pytest.raises(ts.Error) as error:
        ts.compile(folder(**changed), threads=1)
    assert message in str(error.value), str(error.value)


def test_imported_files_mean_what_they_mean_alone(folder):
    """Whatever the program, or a file beside, calls by an operator's name; parameters and sizes of that name stay what they are."""
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    path = folder(main='import "layers/other.tsm"\nimport "layers/dense.tsm"\n\nlet matmul = 2.0\nlet exp = 3.0\nlet n = 4.0\n'
                       "fn abs(x) = x * matmul\nfn main(x: f32[n, 2]) = (dense(x) + n, graph.abs(abs(x) * exp))\n",
                  layers_dense="fn sized(x: t[abs, exp]) = (slice(x, starts = [0, exp - 1], steps = [1, 1]) : t[abs, 1])\n"
                               "fn local(exp) = { let abs = fn(x) => x + exp; abs(exp) }\n"
                               "fn dense(x) = matmul(exp(-abs(x)), tanh(transpose(x, permutation = [1, 0]))) + sized(x) + local(reduce_max(x, axes = [0, 1]))\n",
                  layers_other="fn tanh(x) = x\n")  # fmt: skip
    wanted = np.exp(-np.abs(x)) @ np.tanh(x.T) + x[:, 1:] + 2 * x.max() + 4
    for got in (ts.compile(path, threads=1)(x), ts.compile(path, threads=1, reference=True)(x)):
        np.testing.assert_allclose(got[0], wanted, rtol=1e-6)
        np.testing.assert_allclose(got[1], np.abs(6 * x), rtol=1e-6)


def test_sizes_of_imported_files_are_their_own(folder):
    """Those of parameters and of types within, given on as values, where the program has constants of their names."""
    path = folder(main='import "layers/norms.tsm"\nlet depth = 2.0\nlet wide = 3.0\nfn main(x: f32[4]) = (half(x) * depth, inner(x) * wide)\n',
                  layers_norms="fn column(x: f32[m], s: Size) -> f32[s, 1] = reshape(x)\nfn half(x: f32[depth]) -> f32[depth, 1] = column(x, depth)\n"
                               "fn inner(x: f32[n]) -> f32[n, 1] = { let f = fn(y: f32[wide]) => (column(y, wide) : f32[wide, 1]); f(x) }\n")  # fmt: skip
    x = np.arange(4, dtype=np.float32)
    first, second = ts.compile(path, threads=1)(x)
    np.testing.assert_array_equal(first, 2 * x[:, None])
    np.testing.assert_array_equal(second, 3 * x[:, None])


def test_every_layer_beside_names_of_operators(folder):
    """All modules of the library, in a program that has each operator's name for something else."""
    frontend = pathlib.Path(__file__).parents[2] / "frontends/text"
    layers = sorted((frontend / "layers").glob("*.tsm"))
    texts = "".join(path.read_text() for path in layers)
    declared = set(re.findall(r"^(?:fn|let) (\w+)", texts + (frontend / "Prelude.tsm").read_text(), re.M))
    called = sorted(set(re.findall(r"\b([a-z_]\w*)\(", texts)) - declared - {"fn", "load", "ref", "match", "if"})
    assert {"conv", "matmul", "tanh", "softmax"} <= {*called, "matmul"}
    imports = "".join(f'import "tensmith/{path.name}"\n' for path in layers)
    main = "fn main(x: f32[2, 4, 8, 8], w: (f32[6, 4, 3, 3], f32[6])) = conv2d(x, w, 1, 1)\n"
    plain = ts.compile(folder(main=imports + main), threads=1)
    other = ts.compile(folder(main=imports + "".join(f"let {name} = 1.0\n" for name in called) + main), threads=1)
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 8, 8), (6, 4, 3, 3), (6,)))
    np.testing.assert_array_equal(other(x, (w, b)), plain(x, (w, b)))


def test_links_that_leave_the_folder_are_not_imported(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.tsm"
    outside.write_text("fn secret(x) = x\n")
    path = folder(main='import "link.tsm"\nfn main(x: f32[]) = secret(x)\n')
    (path.parent / "link.tsm").symlink_to(outside)
    with pytest.raises(ts.Error, match="'link.tsm' can't be imported: it is a link to a file"):
        ts.compile(path, threads=1)


def test_a_failure_in_an_imported_file_names_it(folder):
    path = folder(layers_norms="fn half(x) = (concat(x, x, axis = 0) : f32[?, 2])\nfn scaled(x) = x\n",
                  main='import "layers/dense.tsm"\nfn main(x: f32[n, 2], y: f32[m, 2]) = half(x) + y\n')
    model = ts.compile(path, threads=1)
    assert model(np.ones((1, 2), np.float32), np.ones((2, 2), np.float32)).shape == (2, 2)
    with pytest.raises(ts.Error, match="main.tsm"):
        model(np.ones((1, 2), np.float32), np.ones((3, 2), np.float32))
