//! The collectives: the one table that everything else reads.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Expr, Reduction};

/// What a collective is, as far as its code differs from the others'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    /// In Rust's spelling.
    pub name: &'static str,
    /// What ranks send.
    pub send: Side,
    /// What ranks receive.
    pub recv: Side,
    /// Whether it combines elements.
    pub reduces: bool,
    /// Whether NCCL makes messages of it.
    pub is_messages: bool,
    /// NCCL's function.
    pub function: &'static str,
    /// NCCL's function that takes a configuration for the call.
    pub configured: &'static str,
    /// How a plan says it.
    pub example: &'static str,
}

/// What ranks send in a collective, or what they receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side {
    /// Whether only the root has it, or every rank.
    pub only_root: bool,
    /// Whether it is the parts of all ranks, by rank, or one part.
    pub is_whole: bool,
}

impl Side {
    /// Whether a rank has it.
    pub const fn is_on(self, root: bool) -> bool {
        root || !self.only_root
    }
}

impl Spec {
    /// Whether one rank is its root.
    pub const fn has_root(&self) -> bool {
        self.send.only_root || self.recv.only_root
    }

    /// Whether what is sent is all ranks' parts, and whether what is received is.
    pub const fn wholes(&self) -> (bool, bool) {
        (self.send.is_whole, self.recv.is_whole)
    }

    /// Whether every rank sends one part. If not every rank receives one, or both are wholes.
    pub const fn sends_part(&self) -> bool {
        !self.send.only_root && !self.send.is_whole
    }

    /// Whether NCCL makes messages between the root and the others of it.
    pub const fn is_messages_with_root(&self) -> bool {
        self.is_messages && self.has_root()
    }
}

const PART: Side = Side { only_root: false, is_whole: false };
const WHOLE: Side = Side { only_root: false, is_whole: true };
const ROOTS_PART: Side = Side { only_root: true, ..PART };
const ROOTS_WHOLE: Side = Side { only_root: true, ..WHOLE };

const MOVES: Spec = Spec {
    name: "",
    send: PART,
    recv: PART,
    reduces: false,
    is_messages: false,
    function: "",
    configured: "",
    example: "",
};
const REDUCES: Spec = Spec { reduces: true, ..MOVES };
const MESSAGES: Spec = Spec { is_messages: true, ..MOVES };

macro_rules! collectives {
    ($(
        $(#[$doc:meta])*
        $variant:ident = $name:literal, $function:literal, $example:literal:
        $send:ident -> $recv:ident, $like:ident;
    )*) => {
        /// Which collective.
        ///
        /// ```
        /// use typed_nccl_plan::ir::CollectiveName;
        ///
        /// assert_eq!(CollectiveName::AllReduce.name(), "all_reduce");
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum CollectiveName {
            $($(#[$doc])* #[doc = concat!("\n\n`", $function, "`")] $variant,)*
        }

        impl CollectiveName {
            /// All of them, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// What it is.
            #[inline]
            pub const fn spec(self) -> Spec {
                match self {
                    $(Self::$variant => Spec {
                        name: $name,
                        send: $send,
                        recv: $recv,
                        function: $function,
                        configured: concat!($function, "Config"),
                        example: $example,
                        ..$like
                    },)*
                }
            }
        }
    };
}

collectives! {
    /// Every rank gets the reduction of all ranks' parts.
    AllReduce = "all_reduce", "ncclAllReduce", "all_reduce(x, sum)":
        PART -> PART, REDUCES;
    /// Every rank gets the root's part.
    Broadcast = "broadcast", "ncclBroadcast", "broadcast(x, root = 0)":
        ROOTS_PART -> PART, MOVES;
    /// The root gets the reduction of all ranks' parts.
    Reduce = "reduce", "ncclReduce", "reduce(a -> b, sum, root = 0)":
        PART -> ROOTS_PART, REDUCES;
    /// Every rank gets all ranks' parts.
    AllGather = "all_gather", "ncclAllGather", "all_gather(a -> b)":
        PART -> WHOLE, MOVES;
    /// Every rank gets its part of the reduction.
    ReduceScatter = "reduce_scatter", "ncclReduceScatter", "reduce_scatter(a -> b, sum)":
        WHOLE -> PART, REDUCES;
    /// Every rank gets its part of what each rank has.
    AllToAll = "all_to_all", "ncclAlltoAll", "all_to_all(a -> b)":
        WHOLE -> WHOLE, MESSAGES;
    /// The root gets all ranks' parts.
    Gather = "gather", "ncclGather", "gather(a -> b, root = 0)":
        PART -> ROOTS_WHOLE, MESSAGES;
    /// Every rank gets its part of what the root has.
    Scatter = "scatter", "ncclScatter", "scatter(a -> b, root = 0)":
        ROOTS_WHOLE -> PART, MESSAGES;
}

impl CollectiveName {
    /// NCCL's name for it, in Rust's spelling.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The one of that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether it combines elements.
    pub const fn reduces(self) -> bool {
        self.spec().reduces
    }

    /// Whether one rank is its root.
    pub const fn has_root(self) -> bool {
        self.spec().has_root()
    }

    /// Whether NCCL implements it as messages.
    pub const fn is_messages(self) -> bool {
        self.spec().is_messages
    }
}

impl fmt::Display for CollectiveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A collective, with its root where it has one. `count` below is the length of one rank's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveKind<Root = Expr> {
    /// Sends and receives `count`.
    AllReduce(Reduction),
    /// The root sends `count`, everyone receives it. The root is a rank of the communicator.
    Broadcast(Root),
    /// Everyone sends `count`, the root receives the result.
    Reduce(Reduction, Root),
    /// Sends `count`, receives size times `count`.
    AllGather,
    /// Sends size times `count`, receives `count`.
    ReduceScatter(Reduction),
    /// Sends and receives size times `count`.
    AllToAll,
    /// Everyone sends `count`, the root receives size times `count`.
    Gather(Root),
    /// The root sends size times `count`, everyone receives `count`.
    Scatter(Root),
}

impl<Root> CollectiveKind<Root> {
    /// The one of that name. What it does not have of a reduction and a root is not looked at.
    pub fn new(name: CollectiveName, by: Reduction, root: Root) -> Self {
        match name {
            CollectiveName::AllReduce => Self::AllReduce(by),
            CollectiveName::Broadcast => Self::Broadcast(root),
            CollectiveName::Reduce => Self::Reduce(by, root),
            CollectiveName::AllGather => Self::AllGather,
            CollectiveName::ReduceScatter => Self::ReduceScatter(by),
            CollectiveName::AllToAll => Self::AllToAll,
            CollectiveName::Gather => Self::Gather(root),
            CollectiveName::Scatter => Self::Scatter(root),
        }
    }

    /// Which it is, with what it has of a reduction and a root.
    fn parts(&self) -> (CollectiveName, Option<Reduction>, Option<&Root>) {
        match self {
            Self::AllReduce(by) => (CollectiveName::AllReduce, Some(*by), None),
            Self::Broadcast(root) => (CollectiveName::Broadcast, None, Some(root)),
            Self::Reduce(by, root) => (CollectiveName::Reduce, Some(*by), Some(root)),
            Self::AllGather => (CollectiveName::AllGather, None, None),
            Self::ReduceScatter(by) => (CollectiveName::ReduceScatter, Some(*by), None),
            Self::AllToAll => (CollectiveName::AllToAll, None, None),
            Self::Gather(root) => (CollectiveName::Gather, None, Some(root)),
            Self::Scatter(root) => (CollectiveName::Scatter, None, Some(root)),
        }
    }

    /// Which it is.
    pub fn name(&self) -> CollectiveName {
        self.parts().0
    }

    /// What it is.
    pub fn spec(&self) -> Spec {
        self.name().spec()
    }

    /// The root, where there is one.
    pub fn root(&self) -> Option<&Root> {
        self.parts().2
    }

    /// The same with another root.
    pub(crate) fn with_root<R>(&self, root: R) -> CollectiveKind<R> {
        let (name, by, _) = self.parts();
        CollectiveKind::new(name, by.unwrap_or(Reduction::Sum), root)
    }

    /// The reduction, where there is one.
    pub fn reduction(&self) -> Option<Reduction> {
        self.parts().1
    }
}
