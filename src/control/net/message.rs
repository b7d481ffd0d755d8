//! What neighbours say to each other, once both have proven that they belong together.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::frame;
use super::ident::CommId;
pub(crate) use crate::control::left::{Leaves, Left};
use crate::error::Site;

/// How many addresses of a rank are kept.
pub(super) const MOST_ADDRESSES: usize = 16;

/// How long a text may be: why a rank left, the name of a host.
pub(super) const MOST_TEXT: usize = 1 << 14;

/// How many ranks a communicator may have.
pub(crate) const MOST_RANKS: usize = 1 << 20;

#[derive(Serialize, Deserialize, Debug)]
pub(super) enum Message<'a> {
    /// To where the ranks meet: I have come.
    #[serde(borrow)]
    Hello(Hello<'a>),
    /// From there: these are your ancestors in the tree, the parent first.
    Welcome {
        id: CommId,
        ancestors: Vec<Member>,
    },
    /// From there: come again in so many milliseconds.
    Later(u32),
    /// To there: I have my place in the tree.
    Linked,
    /// So many ranks have not come, these among them.
    Missing {
        count: u32,
        ranks: Vec<u32>,
    },
    /// Every rank's [`Member`], encoded.
    Table(&'a [u8]),
    /// The ranks cannot be one communicator, which was to have so many.
    Fail {
        size: u32,
        ranks: Vec<u32>,
        why: Cow<'a, str>,
    },
    /// Parts of an exchange that were said at one place.
    Parts {
        seq: u64,
        topic: &'a str,
        site: Site,
        parts: Vec<Contributions<'a>>,
    },
    Left(Left),
    /// A message of a backend.
    Tell {
        from: u32,
        to: Option<u32>,
        channel: u64,
        bytes: &'a [u8],
    },
    /// I am alive.
    Beat,
    /// I leave, and nothing of what I had to say is missing.
    Bye,
}

/// A rank that comes.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct Hello<'a> {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Unlike that of every other seat.
    pub(super) seat: u64,
    pub(super) version: Cow<'a, str>,
    /// The job that it is part of, as its launcher calls it; empty if that is not known.
    pub(super) job: Cow<'a, str>,
    pub(super) member: Member,
}

/// Where a rank is.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) host: String,
    /// Differs where two hosts have one name.
    pub(super) host_number: u64,
    pub(super) pid: u32,
    /// Unlike that of every other process.
    pub(super) process: u64,
    /// Where it listens.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Member {
    pub(super) fn is_bounded(&self) -> bool {
        self.host.len() <= MOST_TEXT && self.addresses.len() <= MOST_ADDRESSES
    }
}

/// `host h, process 1234`
impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "host {}, process {}", self.host, self.pid)
    }
}

/// What all ranks from `first` to `last` said.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Contributions<'a> {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) bytes: &'a [u8],
}

/// Where every rank is.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) members: Vec<Member>,
    /// As it is sent.
    pub(super) bytes: Arc<[u8]>,
}

impl Table {
    pub(super) fn new(members: Vec<Member>) -> Self {
        // Numbers and texts always encode.
        let bytes = postcard::to_stdvec(&members).unwrap_or_default().into();
        Self { members, bytes }
    }

    /// The table of `size` members; none if it is not one.
    pub(super) fn decode(bytes: &[u8], size: u32) -> Option<Self> {
        let members: Vec<Member> = postcard::from_bytes(bytes).ok()?;
        let is_bounded = members.len() == size as usize && members.iter().all(Member::is_bounded);
        is_bounded.then(|| Self { members, bytes: bytes.into() })
    }
}

impl Message<'_> {
    /// Appends the message's frame.
    pub(super) fn push(&self, output: &mut Vec<u8>) {
        frame::push(output, |output| {
            // Numbers, texts and bytes always encode.
            if let Ok(filled) = postcard::to_extend(self, std::mem::take(output)) {
                *output = filled;
            }
        });
    }
}

/// `text`, as much of it as is sent.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(text.len().min(MOST_TEXT))]
}
