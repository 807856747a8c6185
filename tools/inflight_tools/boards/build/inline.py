"""Functions that stand in place of their calls: each one takes some 40 bytes of heap beside its bytecode, and a call
takes stack and time. No source says so: in the checkout a function is a function. Those are in a table, since measured:
another one may make what stays loaded larger."""

import ast
import copy

from inflight_tools.boards.build.loading import PACKAGE
from inflight_tools.boards.build.names import FUNCTIONS, blocks, defined, variables_of, walk
from inflight_tools.boards.build.rename import names_of


def inline(trees, names):
    """`trees`, {place: ast.Module}, are changed in place: the functions `names` of the library go, and their bodies
    stand where it called them. ValueError if that would mean something else, or if there is no such function, or
    several, or if another module calls it."""
    library = {place: tree for place, tree in trees.items() if place.startswith(f"{PACKAGE}/")}
    known = {place: {*names_of(tree)} for place, tree in trees.items()}
    for name in names:
        users = [place for place in library if name in known[place]]
        home, owner, function = _found(trees, users, name)
        owner.body.remove(function)
        body = _Body(function)
        for place in users:
            if body.stand_in(trees[place]) and place != home:
                needed = body.globals().intersection(one for node in trees[home].body for one in defined(node))
                if needed:
                    raise ValueError(f"{name}() is called in {place}, and needs {', '.join(needed)} of {home}")
            known[place].update(names_of(function))
        for place in known.keys() - library.keys():
            nodes = walk(trees[place]) if name in known[place] else ()
            if any(map(body.is_call, nodes)) and not any(getattr(node, "name", "") == name for node in nodes):
                raise ValueError(f"{place} calls {name}(), which is none: it stands in place of its calls")


def _found(trees, places, name):
    found = [
        (place, owner, function)
        for place in places
        for owner in (trees[place], *(node for node in trees[place].body if isinstance(node, ast.ClassDef)))
        for function in owner.body
        if isinstance(function, FUNCTIONS) and function.name == name
    ]
    if len(found) != 1:
        raise ValueError(f"{len(found)} functions have the name {name}")
    return found[0]


# What a body cannot have: it would be of another function, or run at another time.
_OTHERS: tuple[type[ast.AST], ...] = (ast.Yield, ast.YieldFrom, ast.Await, ast.Lambda, ast.ListComp, ast.SetComp)
_OTHERS += (ast.DictComp, ast.GeneratorExp, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.AsyncFunctionDef)
# What is computed first in an expression.
_FIRST: dict[type[ast.AST], str] = {ast.BinOp: "left", ast.Compare: "left", ast.BoolOp: "values"}
_FIRST |= {ast.UnaryOp: "operand", ast.Attribute: "value", ast.Subscript: "value"}


class _Body:
    """What stands in place of a call."""

    def __init__(self, function):
        self._function = function
        nodes, of = walk(function), function.args
        self._is_value = [ast.unparse(one) for one in function.decorator_list] == ["property"]
        inner = sum(isinstance(node, FUNCTIONS) for node in nodes) > 1 or any(isinstance(n, _OTHERS) for n in nodes)
        odd = of.vararg or of.kwarg or of.kwonlyargs or not all(isinstance(one, ast.Constant) for one in of.defaults)
        if inner or odd or len(function.decorator_list) > self._is_value:
            raise ValueError(f"{function.name}() cannot stand in place of its calls")
        self._statements = function.body
        self._value: ast.expr = ast.Constant(None)
        last = function.body[-1]
        if isinstance(last, ast.Return):
            self._statements, self._value = function.body[:-1], last.value or self._value
        self._returns = any(isinstance(node, ast.Return) for each in self._statements for node in walk(each))
        caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
        self._variables = {*variables_of(function)} | caught
        self._stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}

    def globals(self):
        """The names that it uses and does not assign."""
        return {node.id for node in walk(self._function) if isinstance(node, ast.Name)} - self._variables

    def stand_in(self, tree):
        """Replaces the calls in `tree`. Returns how many there were."""
        left = calls = self._calls(tree)
        for caller in [node for node in walk(tree) if isinstance(node, FUNCTIONS)] if calls else ():
            if self._calls(caller) and (same := self.globals().intersection(variables_of(caller))):
                raise ValueError(
                    f"{caller.name}() has a variable {', '.join(same)}, a global of {self._function.name}()"
                )
        while left:
            for block in [block for node in walk(tree) for block in blocks(node) if isinstance(block, list)]:
                for i in reversed(range(len(block))):
                    self._stand_in_block(block, i)
            if not self._statements:  # within an expression, too
                _Replace(self.is_call, lambda call: self._made(call, None)).visit(tree)
            n, left = left, self._calls(tree)
            if left == n:
                raise ValueError(f"{self._function.name}() cannot stand where it is called")
        return calls

    def _calls(self, tree):
        return sum(map(self.is_call, walk(tree)))

    def is_call(self, node):
        """True if `node` is a call of it, or of another function of that name."""
        of = node if self._is_value else getattr(node, "func", None)
        return getattr(of, "attr", getattr(of, "id", None)) == self._function.name

    def _stand_in_block(self, block, i):
        statement = block[i]
        whole = isinstance(statement, ast.Return)
        head = statement.test if isinstance(statement, ast.If) else getattr(statement, "value", None)
        call = self._first_call(head) if isinstance(statement, (ast.Expr, ast.Assign, ast.Return, ast.If)) else None
        if not call or self._returns and not (whole and call is head):
            return
        before = []
        value = self._made(call, before)
        if not (isinstance(statement, ast.Expr) and call is head and isinstance(value, (ast.Constant, ast.Name))):
            before.append(_Replace(lambda node: node is call, lambda _: value).visit(statement))
        block[i : i + 1] = before or [ast.Pass()]

    def _first_call(self, node):
        # A call of it in the expression `node`, before which nothing else is computed.
        while node and not self.is_call(node):
            node = getattr(node, _FIRST.get(type(node), ""), None)
            node = node[0] if isinstance(node, list) else node
        return node

    def _made(self, call, before):
        # Its value with the arguments of `call`. before: a list that gets what is to be done first; None: nothing can.
        arguments = [call.value] if self._is_value else list(call.args)
        if not self._is_value and isinstance(call.func, ast.Attribute):
            arguments.insert(0, call.func.value)
        given_by_name = [] if self._is_value else call.keywords
        plain = all(isinstance(keyword.value, (ast.Name, ast.Constant)) for keyword in given_by_name)
        if not plain or any(self.is_call(node) for each in arguments for node in walk(each)):
            raise ValueError(f"{self._function.name}() cannot stand where it is called: {ast.unparse(call)}")
        parameters = [arg.arg for arg in self._function.args.args]
        defaults = self._function.args.defaults
        given = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
        given |= dict(zip(parameters, arguments, strict=False))
        given |= {keyword.arg: keyword.value for keyword in given_by_name}
        own = {name: ast.Name(f"{name}_of_{self._function.name}", ast.Load()) for name in self._variables}
        for name in parameters:
            if isinstance(given[name], (ast.Name, ast.Constant)) and name not in self._stored:
                own[name] = given[name]
            elif before is not None:
                before.append(ast.Assign([ast.Name(own[name].id, ast.Store())], given[name]))
            elif any(isinstance(node, (ast.Call, ast.NamedExpr)) for node in walk(given[name])):
                raise ValueError(f"{self._function.name}({ast.unparse(given[name])}) would call that again and again")
            else:
                own[name] = given[name]
        renamed = _Rename(own)
        if before is not None:
            before += [renamed.visit(copy.deepcopy(statement)) for statement in self._statements]
        return renamed.visit(copy.deepcopy(self._value))


class _Replace(ast.NodeTransformer):
    def __init__(self, wanted, made):
        self._wanted, self._made = wanted, made

    def visit(self, node):
        node = self.generic_visit(node)
        return self._made(node) if self._wanted(node) else node


class _Rename(ast.NodeTransformer):
    """Variables become expressions, {name: ast.expr}, of names where they are assigned."""

    def __init__(self, table):
        self._table = table

    def visit_Name(self, node):
        new = self._table.get(node.id)
        if new and isinstance(node.ctx, ast.Load):
            return copy.deepcopy(new)
        return ast.Name(new.id, node.ctx) if new else node

    def visit_ExceptHandler(self, node):
        self.generic_visit(node)
        node.name = self._table[node.name].id if node.name in self._table else node.name
        return node
