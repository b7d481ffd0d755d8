//! The collectives by name: the one list that everything else follows.

use std::fmt;

macro_rules! collectives {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Which collective. Everything that tells collectives apart matches on it without a wildcard, so
        /// that a new one does not compile before it is handled everywhere.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum CollectiveName {
            $($(#[$doc])* $variant,)*
        }

        impl CollectiveName {
            /// All of them, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// NCCL's name for it, in Rust's spelling.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

collectives! {
    /// `ncclAllReduce`
    AllReduce = "all_reduce",
    /// `ncclBroadcast`
    Broadcast = "broadcast",
    /// `ncclReduce`
    Reduce = "reduce",
    /// `ncclAllGather`
    AllGather = "all_gather",
    /// `ncclReduceScatter`
    ReduceScatter = "reduce_scatter",
    /// `ncclAlltoAll`
    AllToAll = "all_to_all",
    /// `ncclGather`
    Gather = "gather",
    /// `ncclScatter`
    Scatter = "scatter",
}

impl CollectiveName {
    /// The one of that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether it combines elements.
    pub const fn reduces(self) -> bool {
        match self {
            Self::AllReduce | Self::Reduce | Self::ReduceScatter => true,
            Self::Broadcast | Self::AllGather | Self::AllToAll | Self::Gather | Self::Scatter => {
                false
            }
        }
    }

    /// Whether one rank is its root.
    pub const fn has_root(self) -> bool {
        match self {
            Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter => true,
            Self::AllReduce | Self::AllGather | Self::ReduceScatter | Self::AllToAll => false,
        }
    }

    /// Whether NCCL makes messages of it.
    pub const fn is_messages(self) -> bool {
        match self {
            Self::AllToAll | Self::Gather | Self::Scatter => true,
            Self::AllReduce
            | Self::Broadcast
            | Self::Reduce
            | Self::AllGather
            | Self::ReduceScatter => false,
        }
    }
}

impl fmt::Display for CollectiveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
