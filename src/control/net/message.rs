//! Messages between neighbours, after both sides have proven that they know the secret.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::frame;
use super::ident::CommId;
pub(super) use crate::control::left::{Leaves, Left};
use crate::error::Site;

/// The most addresses of a rank.
pub(super) const MOST_ADDRESSES: usize = 16;

/// The longest text, such as the reason why a rank left or the name of a host.
pub(super) const MOST_TEXT: usize = 1 << 14;

/// The most ranks of a communicator.
pub(crate) const MOST_RANKS: usize = 1 << 20;

#[derive(Serialize, Deserialize, Debug)]
pub(super) enum Message<'a> {
    /// To the rendezvous: a rank arrives.
    #[serde(borrow)]
    Hello(Hello<'a>),
    /// From the rendezvous: the rank's ancestors in the tree, the parent first.
    Welcome {
        id: CommId,
        ancestors: Vec<Member>,
    },
    /// From the rendezvous: come again in this many milliseconds.
    Later(u32),
    /// To the rendezvous: the rank is attached to the tree.
    Linked,
    /// How many ranks have not arrived, and some of them.
    Missing {
        count: u32,
        ranks: Vec<u32>,
    },
    /// The encoded [`Member`]s of all ranks.
    Table(&'a [u8]),
    Fail(Failure),
    /// Contributions to an exchange with one topic and call site.
    Parts {
        seq: u64,
        topic: &'a str,
        site: Site,
        parts: Vec<Contributions<'a>>,
    },
    Left(Left),
    Tell(Tell<'a>),
    /// Heartbeat.
    Beat,
    /// The sender leaves in good order, after everything that it had to send.
    Bye {
        /// Every rank has finished, as the sender's neighbours know now.
        all_finished: bool,
    },
}

/// Why the ranks cannot form a communicator.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct Failure {
    /// The intended size, as reported.
    pub(super) size: u32,
    /// The ranks that are the subject of `why`.
    pub(super) ranks: Vec<u32>,
    pub(super) why: String,
}

/// A rank that arrives at the rendezvous.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct Hello<'a> {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Identifies this seat: differs even between two ranks of one number.
    pub(super) seat: u64,
    /// The launcher's name for the job; empty if unknown.
    pub(super) job: Cow<'a, str>,
    pub(super) member: Member,
}

/// The location of a rank.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) host: String,
    /// Tells apart hosts with the same name.
    pub(super) host_number: u64,
    pub(super) pid: u32,
    /// Identifies the process, across hosts and reuse of pids.
    pub(super) process: u64,
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

/// A backend's message.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct Tell<'a> {
    pub(super) from: u32,
    /// `None` for all other ranks.
    pub(super) to: Option<u32>,
    pub(super) channel: u64,
    /// Counts the sender's messages with this `to`, from 1.
    pub(super) number: u64,
    #[serde(borrow)]
    pub(super) bytes: Cow<'a, [u8]>,
}

impl Tell<'_> {
    pub(super) fn into_owned(self) -> Tell<'static> {
        Tell { bytes: Cow::Owned(self.bytes.into_owned()), ..self }
    }

    pub(super) fn borrowed(&self) -> Tell<'_> {
        Tell { bytes: Cow::Borrowed(&self.bytes), ..*self }
    }
}

/// The contribution that ranks `first` to `last` have in common.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Contributions<'a> {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) bytes: &'a [u8],
}

/// The location of every rank.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) members: Vec<Member>,
    /// The encoding, as it is sent.
    pub(super) bytes: Arc<[u8]>,
}

impl Table {
    pub(super) fn new(members: Vec<Member>) -> Self {
        // Encoding numbers and texts cannot fail.
        let bytes = postcard::to_stdvec(&members).unwrap_or_default().into();
        Self { members, bytes }
    }

    /// Decodes the table of `size` members; `None` if it is malformed.
    pub(super) fn decode(bytes: &[u8], size: u32) -> Option<Self> {
        let members: Vec<Member> = postcard::from_bytes(bytes).ok()?;
        let is_bounded = members.len() == size as usize && members.iter().all(Member::is_bounded);
        is_bounded.then(|| Self { members, bytes: bytes.into() })
    }
}

impl Message<'_> {
    /// Appends the message as a frame.
    pub(super) fn push(&self, output: &mut Vec<u8>) {
        frame::push(output, |output| {
            // Encoding numbers, texts and bytes cannot fail.
            if let Ok(filled) = postcard::to_extend(self, std::mem::take(output)) {
                *output = filled;
            }
        });
    }
}

/// The longest prefix of `text` that may be sent.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(text.len().min(MOST_TEXT))]
}
