"""The public names of a Python package's sources, one a line: module, name, kind.

A module's names are those of its `__all__`. Of a class, its members without an underscore and what its
constructor takes; of a function, its parameters, as `function(parameter)`.
"""

import ast
import sys
import zipfile

HIDDEN = ("self", "cls")


def listed(tree):
    """`__all__`, and whether there is one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
            elements = getattr(node.value, "elts", [])
            return [e.value for e in elements if isinstance(e, ast.Constant)]
    return []


def parameters(name, function):
    args = function.args
    every = args.posonlyargs + args.args + [args.vararg] + args.kwonlyargs + [args.kwarg]
    return [(f"{name}({a.arg})", "param") for a in every if a is not None and a.arg not in HIDDEN]


def targets(node):
    if isinstance(node, ast.AnnAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


def members(class_):
    for node in class_.body:
        if isinstance(node, ast.FunctionDef):
            if node.name == "__init__":
                yield from parameters(class_.name, node)
            if node.name.startswith("_"):
                continue
            marks = [getattr(d, "id", getattr(d, "attr", "")) for d in node.decorator_list]
            is_property = "property" in marks or "cached_property" in marks
            if "setter" in marks or "overload" in marks:
                continue
            name = f"{class_.name}.{node.name}"
            yield name, "property" if is_property else "method"
            if not is_property:
                yield from parameters(name, node)
        for target in targets(node):
            name = getattr(target, "id", "_")
            if not name.startswith("_"):
                yield f"{class_.name}.{name}", "field"


def bases(tree, public):
    """What public classes inherit from, of the same module: their members are public too."""
    found = [b.id for c in tree.body if isinstance(c, ast.ClassDef) and c.name in public for b in c.bases if isinstance(b, ast.Name)]
    own = [c.name for c in tree.body if isinstance(c, ast.ClassDef)]
    return [name for name in found if name in own and not name.startswith("_")]


def names(tree):
    public = listed(tree)
    public += bases(tree, public)
    for node in ast.walk(tree):
        # A definition may stand in a `try`.
        for child in getattr(node, "body", []) if isinstance(node, (ast.Module, ast.Try, ast.If)) else []:
            name = getattr(child, "name", "")
            if isinstance(child, ast.ClassDef) and name in public:
                yield name, "class"
                yield from members(child)
            elif isinstance(child, ast.FunctionDef) and name in public:
                yield name, "function"
                yield from parameters(name, child)
            for target in targets(child):
                if getattr(target, "id", "") in public:
                    yield target.id, "name"
            if isinstance(child, ast.ImportFrom):
                for alias in child.names:
                    if (alias.asname or alias.name) in public:
                        yield alias.asname or alias.name, "name"


def main(wheel, package):
    everywhere = set()
    with zipfile.ZipFile(wheel) as files:
        # The package itself comes last.
        for path in sorted(files.namelist(), key=lambda path: (path.endswith("__init__.py"), path)):
            if not path.startswith(package) or not path.endswith(".py"):
                continue
            module = path[len(package) : -len(".py")].replace("/", ".")
            if any(part.startswith("_") and part != "__init__" for part in module.split(".")):
                continue
            module = module.removesuffix(".__init__")
            tree = ast.parse(files.read(path))
            found = names(tree)
            if module == "__init__":
                # What no module of its own has: the package's version, and modules that are loaded late.
                module, found = "", [(n, "name") for n in listed(tree) if n not in everywhere]
            seen = set()
            for name, kind in found:
                if name not in seen:
                    seen.add(name)
                    everywhere.add(name)
                    print(module, name, kind, sep="\t")


main(*sys.argv[1:])
