"""`ItemTree`: folded items linked from parent to child."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lance_context._native import DatagenItemId
from lance_context.datagen_types import FoldedItem, ItemIdLike, Record
from lance_context.types import Row


@dataclass(frozen=True, slots=True)
class ItemNode(Record):
    """One item of a tree.

    Attributes:
        item: The folded item.
        children: The ids of its children that the tree shows, by step and branch.
    """

    item: FoldedItem
    children: list[DatagenItemId]

    @property
    def item_id(self) -> DatagenItemId:
        """The item's id."""
        return self.item.item_id


@dataclass(frozen=True, slots=True, repr=False)
class ItemTree(Record):
    """The items at and below one; ``print`` and notebooks show them as a tree.

    Attributes:
        roots: The item asked for; empty when it has no events, and only its descendants have.
        orphans: Items whose parent has no events.
        nodes: The items by the text of their ids, parents before their children.
        total: How many items there are, those beyond the bounds included.
        text: The tree as text, one line an item.
    """

    roots: list[DatagenItemId]
    orphans: list[DatagenItemId]
    nodes: Mapping[str, ItemNode]
    total: int
    text: str

    @property
    def shown(self) -> int:
        """How many items the tree has within its bounds."""
        return len(self.nodes)

    def walk(self) -> Iterator[ItemNode]:
        """Goes through the nodes in preorder: a parent, then its children; orphans last.

        Returns:
            An iterator over the nodes.
        """
        waiting = [*self.roots, *self.orphans][::-1]
        while waiting:
            node = self.nodes[str(waiting.pop())]
            yield node
            waiting.extend(reversed(node.children))

    def find(self, item_id: ItemIdLike) -> ItemNode | None:
        """Finds the node of an item.

        Args:
            item_id: The item.

        Returns:
            Its node, or ``None`` if the tree does not show it.

        Raises:
            ValueError: It is no id.
        """
        return self.nodes.get(str(DatagenItemId(item_id)))

    def to_dict(self) -> Row:
        """Returns the tree as plain dicts: ids as text, each item with its status, step names and native values.

        Returns:
            ``roots``, ``orphans``, ``total``, and ``nodes`` by id.
        """
        return {
            "roots": [str(item_id) for item_id in self.roots],
            "orphans": [str(item_id) for item_id in self.orphans],
            "total": self.total,
            "nodes": {item_id: _plain(node) for item_id, node in self.nodes.items()},
        }

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """Shows the tree in a notebook; `html` can show more."""
        return self.html()

    def html(self, *, images: Mapping[str, bytes] | None = None) -> str:
        """Renders the tree as HTML without script, of less than 1 MB: what does not fit is counted.

        Args:
            images: Pictures to show as thumbnails, by the id of the event that holds them; see
                `FoldedItem.blob_event_ids` and `DatagenStore.get_blob`.

        Returns:
            The HTML.
        """
        from lance_context._tree_html import tree_html

        return tree_html(self, images or {})


def _plain(node: ItemNode) -> Row:
    item = node.item
    return {
        "status": item.status,
        "failed": item.failed,
        "attempt": item.last_attempt,
        "query_tags": item.query_tags,
        "completed": list(item.completed),
        "fields": {name: field.values if field.op == "append" else field.value for name, field in item.fields.items()},
        "failures": [{"error_type": failure.error_type, "error_dump": failure.error_dump} for failure in item.failures],
        "children": [str(child) for child in node.children],
    }
