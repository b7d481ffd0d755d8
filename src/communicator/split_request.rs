//! The ranks' requests when they divide a communicator. All ranks see the same requests, so all of
//! them reach the same answer.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::CommConfig;
use super::hello::too_many;
use crate::Rank;
use crate::Result;
use crate::config::Alike;
use crate::error::InitFailed;

/// One rank's request.
#[derive(Serialize, Deserialize)]
pub(super) struct SplitRequest {
    pub(super) color: Option<u64>,
    pub(super) key: i128,
    pub(super) child: Child,
}

/// The properties that the ranks of one child must share.
#[derive(PartialEq, Serialize, Deserialize)]
pub(super) struct Child {
    name: String,
    alike: Alike,
    borrows: bool,
}

impl Child {
    pub(super) fn new(name: &str, config: &CommConfig, borrows: bool) -> Self {
        Self { name: name.to_owned(), alike: config.alike(), borrows }
    }

    /// Describes a difference between two requests for one child, if there is one.
    fn differs(&self, other: &Self) -> Option<String> {
        if self.name != other.name {
            let (one, two) = (&self.name, &other.name);
            return Some(format!("name it differently, {one} and {two}"));
        }
        if let Some(how) = self.alike.differs(&other.alike) {
            return Some(format!("configure {how}"));
        }
        (self != other).then(|| "call `split_shared` and `split`".to_owned())
    }
}

/// All ranks' requests, by rank.
pub(super) struct SplitRequests(Vec<SplitRequest>);

impl SplitRequests {
    /// Checks that all requested children can be created; `name` is the parent's.
    pub(super) fn agree(all: Vec<SplitRequest>, name: &str) -> Result<Self> {
        let mut children: HashMap<u64, (usize, usize, &Child)> = HashMap::new();
        for (rank, request) in all.iter().enumerate() {
            let SplitRequest { color: Some(color), child, .. } = request else { continue };
            let (first, size, known) = children.entry(*color).or_insert((rank, 0, child));
            *size += 1;
            let fail = |ranks: &[usize], why| {
                let ranks = ranks.iter().map(|rank| Rank::at(*rank)).collect();
                Err(InitFailed { size: all.len(), ranks, why }.into())
            };
            if let Some(why) = known.differs(child) {
                let why = format!(
                    "give one colour, {color}, when {name} is split, and {why}; ask for the same on all ranks of a child"
                );
                return fail(&[*first, rank], why);
            }
            if let Some(why) = too_many(*size, child.alike.slots) {
                return fail(&[], why);
            }
        }
        Ok(Self(all))
    }

    /// The ranks of a colour in the child's order; empty without a colour.
    pub(super) fn members(&self, color: Option<u64>) -> Vec<u32> {
        let requests = self.0.iter().enumerate();
        let mut members: Vec<(i128, u32)> = requests
            .filter(|(_, request)| request.color.is_some() && request.color == color)
            .map(|(rank, request)| (request.key, Rank::at(rank).0))
            .collect();
        members.sort_unstable();
        members.into_iter().map(|(_, rank)| rank).collect()
    }
}
