# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values computed from facts of the host: Jinja expressions in a sandbox, over a closed set of names."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from .names import advice
from .value_type import ValueRefused

#: All that an expression may name.
FACTS: Tuple[str, ...] = (
    "host.cpus", "host.memory_bytes", "host.numa_nodes", "slapd.threads",
    "database.size_bytes", "database.map_size_bytes", "database.used_bytes",
)
#: The filters an expression may use, out of Jinja's own.
FILTERS: Tuple[str, ...] = ("abs", "float", "int", "max", "min", "round", "sum")


def check(text: object) -> str:
    """Return the expression's text; raises ValueRefused when it does not parse or names what there is not."""
    import jinja2
    from jinja2 import nodes

    if not isinstance(text, str) or not text.strip():
        raise ValueRefused("an expr that is no text", "a Jinja expression such as \"2 * host.cpus\"")
    problem: Tuple[str, str] | None = None
    for braces in ("{{", "}}", "{%"):
        if braces in text:
            raise ValueRefused('"%s"' % text, "the bare expression", "Leave %s out: expr needs no braces" % braces)
    try:
        tree = nodes.Template(_environment().parse("{{ %s }}" % text).body)
        problem = _forbidden(tree) or _unknown_fact(tree)
        _environment().compile_expression(text)  # finds a test that does not exist, as parsing does not
    except jinja2.TemplateSyntaxError as error:
        problem = problem or ("a Jinja expression", "Jinja says: %s" % error.message)
    if problem:
        raise ValueRefused('"%s"' % text, problem[0], problem[1])
    return text.strip()


def evaluate(text: str, facts: Mapping[str, Any]) -> Any:
    """Return the native value of a checked expression on a host; raises ValueRefused with the reason.

    facts: the host's facts as preflight returns them; only those in FACTS are seen.
    """
    import jinja2

    names = _visible(facts)
    unknown = [fact for fact in _facts_of(text) if names[fact.split(".")[0]].get(fact.split(".")[1]) is None]
    if unknown:
        raise ValueRefused('"%s"' % text, "facts that are known here",
                           "This host does not tell %s" % ", ".join(unknown))
    try:
        result = _environment().compile_expression(text, undefined_to_none=False)(**names)
    except (jinja2.TemplateError, ArithmeticError, TypeError, ValueError) as error:
        raise ValueRefused('"%s"' % text, "an expression that works here", "It fails: %s" % error) from None
    if isinstance(result, jinja2.Undefined):
        raise ValueRefused('"%s"' % text, "an expression with a value here", "It gives none: is an else missing?")
    return result


def _visible(facts: Mapping[str, Any]) -> Dict[str, Dict[str, Any]]:
    """Return the facts an expression may see, by group; one the host does not have is None."""
    visible: Dict[str, Dict[str, Any]] = {}
    for fact in FACTS:
        group, name = fact.split(".")
        visible.setdefault(group, {})[name] = (facts.get(group) or {}).get(name)
    return visible


def _environment() -> Any:
    """Return a sandbox without functions and with few filters."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Arithmetic(ImmutableSandboxedEnvironment):
        # Repeated text and towers of powers would take the controller's memory or time.
        intercepted_binops = frozenset(["*", "**", "%"])

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**" or not all(isinstance(side, (int, float)) for side in (left, right)):
                raise TypeError("%s works on numbers only, and ** not at all" % operator)
            return super().call_binop(context, operator, left, right)

    environment = Arithmetic(undefined=jinja2.StrictUndefined)
    environment.globals.clear()
    environment.filters = {name: environment.filters[name] for name in FILTERS}
    return environment


def _forbidden(tree: Any) -> Tuple[str, str] | None:
    from jinja2 import nodes

    for node in tree.find_all(nodes.Filter):
        if node.name not in FILTERS:
            return "filters out of %s" % ", ".join(FILTERS), "There is no filter %s. %s" % (
                node.name, advice(node.name, FILTERS))
    for node in tree.find_all(nodes.Call):
        return "no function calls", "Write [a, b] | min for a minimum" if _is_minmax(node) else "Compute with operators"
    return None


def _is_minmax(node: Any) -> bool:
    return getattr(node.node, "name", "") in ("min", "max")


def _named(tree: Any) -> List[str]:
    """Return every name in an expression, in the form `group.fact` where it has one."""
    from jinja2 import nodes

    found: List[str] = []
    roots = set()
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if isinstance(node.node, nodes.Name):
            attribute = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", "?")
            found.append("%s.%s" % (node.node.name, attribute))
            roots.add(id(node.node))
        elif isinstance(node, nodes.Getattr):
            found.append("?.%s" % node.attr)
    found.extend(node.name for node in tree.find_all(nodes.Name) if id(node) not in roots)
    return found


def _unknown_fact(tree: Any) -> Tuple[str, str] | None:
    for name in _named(tree):
        if name not in FACTS:
            return "facts out of %s" % ", ".join(FACTS), "There is no fact %s. %s" % (name, advice(name, FACTS))
    return None


def _facts_of(text: str) -> List[str]:
    return [name for name in _named(_environment().parse("{{ %s }}" % text)) if name in FACTS]
