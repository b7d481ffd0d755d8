//! What a plan is bound with.

use crate::{DType, Element};

/// What a plan takes when it is bound: the extents of its axes where it has several, its parameters, and
/// the types that its type parameters stand for. Everything goes by the plan's own names.
///
/// The extent of a plan's only axis is the communicator's size, and need not be given.
#[derive(Clone, Debug, Default)]
pub struct Values {
    pub(super) axes: Vec<(String, i64)>,
    pub(super) params: Vec<(String, Vec<i64>)>,
    pub(super) elements: Vec<(String, DType)>,
}

impl Values {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So many ranks along an axis.
    #[must_use]
    pub fn axis(mut self, name: &str, extent: usize) -> Self {
        self.axes.push((name.to_owned(), number(extent)));
        self
    }

    /// A parameter.
    #[must_use]
    pub fn number(mut self, name: &str, value: usize) -> Self {
        self.params.push((name.to_owned(), vec![number(value)]));
        self
    }

    /// A parameter that is a list.
    #[must_use]
    pub fn list(mut self, name: &str, values: &[usize]) -> Self {
        let values = values.iter().copied().map(number).collect();
        self.params.push((name.to_owned(), values));
        self
    }

    /// A type parameter.
    #[must_use]
    pub fn element<T: Element>(mut self, name: &str) -> Self {
        self.elements.push((name.to_owned(), T::DTYPE));
        self
    }
}

/// What is larger is larger than all memory.
fn number(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
