//! The attributes of an element, each with its type and range.

use std::ops::RangeInclusive;

use roxmltree::Node;
use typed_nccl_plan::ir::Location;

use crate::lines::Lines;
use crate::unreadable::{Reason, Unreadable};

/// An element, by the name that its errors use.
#[derive(Clone, Copy)]
pub(super) struct Element<'a, 'input> {
    node: Node<'a, 'input>,
    name: &'static str,
    lines: &'a Lines,
}

impl<'a, 'input> Element<'a, 'input> {
    pub(super) fn new(node: Node<'a, 'input>, name: &'static str, lines: &'a Lines) -> Self {
        Self { node, name, lines }
    }

    /// The elements of a name in this one, in order.
    pub(super) fn children(
        self,
        name: &'static str,
    ) -> impl Iterator<Item = Self> + use<'a, 'input> {
        let found = self.node.children().filter(move |child| child.has_tag_name(name));
        found.map(move |node| Self { node, name, lines: self.lines })
    }

    pub(super) fn at(self) -> Location {
        self.lines.at(self.node.range().start)
    }

    pub(super) fn text(self, attribute: &'static str) -> Result<&'a str, Unreadable> {
        self.node.attribute(attribute).ok_or_else(|| {
            Unreadable::new(self.at(), Reason::Missing { element: self.name, attribute })
        })
    }

    /// A number in a range.
    pub(super) fn number(
        self,
        attribute: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<i64, Unreadable> {
        let value = self.text(attribute)?;
        let number = value.trim().parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let wanted = format!("a number from {} to {}", range.start(), range.end());
            self.wrong(attribute, value, wanted)
        })
    }

    /// A number that is the index of something.
    pub(super) fn index(self, attribute: &'static str, most: u32) -> Result<u32, Unreadable> {
        self.number(attribute, 0..=i64::from(most)).map(|number| number as u32)
    }

    pub(super) fn wrong(
        self,
        attribute: &'static str,
        value: &str,
        wanted: impl Into<String>,
    ) -> Unreadable {
        // The value may be as long as the file.
        let value = value.chars().take(40).collect();
        let at = self
            .node
            .attribute_node(attribute)
            .map_or_else(|| self.at(), |found| self.lines.at(found.range().start));
        Unreadable::new(at, Reason::Value { attribute, value, wanted: wanted.into() })
    }
}
