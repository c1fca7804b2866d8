# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What sources name and call, read from their text."""

import ast
import dataclasses
import functools
import importlib
import inspect
import pathlib
import textwrap

PACKAGE = pathlib.Path(__file__).parents[2] / 'nova_numa_guard'


@dataclasses.dataclass(frozen=True)
class Use:
    """A name with attributes, such as ``objects.Instance.save``.

    :param root: the name; ``super()`` is one
    :param call: where it is called
    """

    where: str
    root: str
    attributes: tuple[str, ...]
    line: int
    call: ast.Call | None = None

    def __str__(self):
        name = '.'.join((self.root, *self.attributes))
        return f'{self.where}:{self.line}: {name}'


@functools.cache
def tree(path):
    """The syntax of a file."""
    return ast.parse(pathlib.Path(path).read_text())


def files():
    """Those of the package."""
    return sorted(PACKAGE.rglob('*.py'))


def where(path):
    """How a file of the package is called here."""
    return path.relative_to(PACKAGE).as_posix()


@functools.cache
def uses(path, name=''):
    """Every use of a name in a file; what is called within a chain too."""
    found = []
    _collect(tree(path), name or where(path), found)
    return found


def _collect(node, name, found, call=None):
    if isinstance(node, ast.Call):
        _collect(node.func, name, found, node)
        for child in (*node.args, *node.keywords):
            _collect(child, name, found)
        return
    if isinstance(node, ast.Attribute):
        chain = _chain(node)
        if chain:
            root, *attributes = chain
            found.append(Use(name, root, tuple(attributes), node.lineno, call))
            return
    for child in ast.iter_child_nodes(node):
        _collect(child, name, found)


def _chain(node):
    """The names of an attribute of a name; None if it is one of a value."""
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return node.id, *reversed(attributes)
    if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'super':
        return 'super()', *reversed(attributes)
    return None


def imports(path):
    """Nova's modules by the name that they have in a file, and theirs."""
    found = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split('.')[0] == 'nova':
                for each in node.names:
                    found[each.asname or each.name] = (node.module, each.name)
        elif isinstance(node, ast.Import):
            for each in node.names:
                if each.name.split('.')[0] == 'nova':
                    found['nova'] = (each.name, None)
    return found


def load(module, name):
    """What an import statement gives.

    :raises ImportError: there is none
    """
    loaded = importlib.import_module(module)
    if name is None:
        return importlib.import_module(module.split('.')[0])
    if hasattr(loaded, name):
        return getattr(loaded, name)
    return importlib.import_module(f'{module}.{name}')


def arguments(call, skip=0):
    """What a call passes: by position, by name, and whether more may be.

    :param skip: of those by position
    """
    args = [arg for arg in call.args if not isinstance(arg, ast.Starred)]
    names = [keyword.arg for keyword in call.keywords if keyword.arg]
    more = len(args) < len(call.args) or len(names) < len(call.keywords)
    return ['value'] * len(args[skip:]), dict.fromkeys(names, 'value'), more


def mismatch(function, call, skip=0, bound=True):
    """Why a call does not suit a function; None if it does.

    :param bound: whether it takes no self, or has it already
    """
    args, kwargs, more = arguments(call, skip)
    signature = inspect.signature(function)
    bind = signature.bind_partial if more else signature.bind
    try:
        bind(*([] if bound else ['self']), *args, **kwargs)
    except TypeError as exc:
        return f'{exc}; it is {signature} now'
    return None


def references(call, root, name):
    """Where a function is handed on to be called: its place, or None."""
    for place, arg in enumerate(call.args):
        if isinstance(arg, ast.Attribute) and _chain(arg) == (root, name):
            return place
    return None


def parsed(function):
    """The syntax of a function or method."""
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


@functools.cache
def assigned(function):
    """What a method sets of its object, by its text."""
    return {
        node.attr
        for node in ast.walk(parsed(function))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and getattr(node.value, 'id', '') == 'self'
    }
