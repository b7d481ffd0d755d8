//! Regions by how they are written.

use std::collections::HashMap;

use crate::check::lengths::{Kind, Lengths, Where};

/// Regions that are written alike, numbered.
#[derive(Default)]
pub(super) struct Kinds<'a> {
    known: HashMap<(Where, bool), u32>,
    kinds: HashMap<Kind<'a>, u32>,
    pub(super) first: Vec<(Where, bool)>,
}

impl<'a> Kinds<'a> {
    pub(super) fn number(&mut self, proof: &Lengths<'a>, at: Where, is_put: bool) -> u32 {
        if let Some(&number) = self.known.get(&(at, is_put)) {
            return number;
        }
        let number = *self.kinds.entry(proof.kind(at, is_put)).or_insert_with(|| {
            self.first.push((at, is_put));
            self.first.len() as u32 - 1
        });
        self.known.insert((at, is_put), number);
        number
    }
}
