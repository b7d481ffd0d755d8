//! Failures of how this process was started.

use std::fmt;

use thiserror::Error;

use super::Error;

/// The environment and the program ask for a rank, or ranks, that this process cannot have.
///
/// ```standalone_crate
/// # use typed_nccl::{Error, Seat, error::LaunchFault};
/// // As torchrun would start the program, but for the rank.
/// let meeting = [("MASTER_ADDR", "localhost"), ("MASTER_PORT", "29500")];
/// for (variable, value) in [("RANK", "9"), ("WORLD_SIZE", "2")].into_iter().chain(meeting) {
///     // SAFETY: no other thread is running yet.
///     unsafe { std::env::set_var(variable, value) };
/// }
/// let Err(Error::BadLaunch(bad)) = Seat::from_env() else { panic!("2 ranks have no rank 9") };
/// let LaunchFault::RankTooHigh { launched } = bad.why else { panic!("{bad}") };
/// assert_eq!((launched.rank, launched.size), (9, 2));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{why}")]
pub struct BadLaunch {
    /// What is wrong.
    pub why: LaunchFault,
}

impl From<LaunchFault> for Error {
    fn from(why: LaunchFault) -> Self {
        BadLaunch { why }.into()
    }
}

/// A launcher's description of this process.
///
/// Part of several [`LaunchFault`]s. See the example of [`BadLaunch`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launched {
    /// The launcher.
    pub launcher: &'static str,
    /// This process's rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: usize,
    /// The rank among those on its machine, if the launcher sets it.
    pub local_rank: Option<u32>,
    /// A command line of the launcher that sets rank 0's address.
    pub with_address: &'static str,
    /// The variables that hold rank, size and local rank.
    pub variables: [&'static str; 3],
}

impl fmt::Display for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { launcher, rank, size, variables: [rank_in, size_in, _], .. } = self;
        write!(f, "{launcher} started this process as rank {rank} of {size} ({rank_in}, {size_in})")
    }
}

/// Why this process cannot become a rank. The message includes the remedy.
///
/// See the example of [`BadLaunch`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LaunchFault {
    /// No launcher started this process.
    #[error("no launcher started this process; looked for {}; start it by one of these, or use `Seat::local(n)` for ranks in one process{}", listed(.looked_for), .asked.as_ref().map_or_else(String::new, |asked| format!("; {asked} starts ranks only in a program that calls `launch!`")))]
    NoLauncher {
        /// The variable that asks `launch!` for ranks, if it is set: `TYPED_NCCL=host:4,processes`.
        asked: Option<String>,
        /// The launchers looked for, each with a variable that it sets.
        looked_for: Vec<(&'static str, &'static str)>,
    },
    /// Only some of a launcher's variables are set.
    #[error("{} {} set, as {launcher} would, and {} {} not; set the rest, or unset what is there to run without a launcher", .found.join(", "), are(.found.len()), .missing.join(", "), are(.missing.len()))]
    Half {
        /// The launcher.
        launcher: &'static str,
        /// The variables that are set.
        found: Vec<&'static str>,
        /// The variables that are not.
        missing: Vec<&'static str>,
    },
    /// A variable that does not hold a valid number.
    #[error(
        "{variable} is `{found}`, which is no number that it can be; a launcher sets it, so look for what changed it"
    )]
    NotANumber {
        /// Its name.
        variable: &'static str,
        /// Its value.
        found: String,
    },
    /// A variable that does not hold a list of machines.
    #[error(
        "{variable} is `{found}`, which does not read as a list of machines such as `gpu[01-03,07]`; TYPED_NCCL_ADDRESS=host:port says where rank 0 runs instead"
    )]
    NoHosts {
        /// Its name.
        variable: &'static str,
        /// Its value.
        found: String,
    },
    /// The rank is not below the size.
    #[error("{} is {} and {} is {} (by {}): ranks are numbered from 0 to one less than their number; look for what changed them", .launched.variables[0], .launched.rank, .launched.variables[1], .launched.size, .launched.launcher)]
    RankTooHigh {
        /// The launcher's description of this process.
        launched: Launched,
    },
    /// Two launchers disagree, and neither is known to start the other.
    #[error("{}, and {}: they disagree, and neither is known to start the other; unset the variables of the one that does not count", .launchers[0], .launchers[1])]
    TwoLaunchers {
        /// Their descriptions of this process.
        launchers: [Launched; 2],
    },
    /// Rank 0's address is unknown.
    #[error("{launched}{}, and nothing says where rank 0 runs; set TYPED_NCCL_ADDRESS=host:port on all ranks, with rank 0's machine and a port that is free there: {}", on_this_machine(.here), .launched.with_address)]
    NoAddress {
        /// The launcher's description of this process.
        launched: Launched,
        /// The number of ranks on this machine, if the launcher sets it.
        here: Option<u32>,
    },
    /// It is unknown which of several GPUs this process should use.
    #[error("{launched}, it sees {gpus} GPUs, and nothing says which is its own; set {}, or let each process see one GPU (CUDA_VISIBLE_DEVICES)", .launched.variables[2])]
    NoLocalRank {
        /// The launcher's description of this process.
        launched: Launched,
        /// The number of GPUs visible to this process.
        gpus: usize,
    },
    /// This process is one rank, and has no GPU though its machine has some.
    #[error(
        "{launched}, and it has no GPU: {why}; with fewer GPUs than ranks, start fewer, or run all of them on the CPU: TYPED_NCCL=host"
    )]
    NoGpu {
        /// The launcher's description of this process.
        launched: Launched,
        /// Why it has none.
        why: String,
    },
    /// This process is to be one rank on the host, and no launcher says which.
    #[error("TYPED_NCCL=host makes a process the rank that its launcher says, and no launcher started this one; without a launcher, TYPED_NCCL=host:4 runs 4 ranks in this process, and TYPED_NCCL=host:4,processes starts a process for each; looked for {}", listed(.looked_for))]
    NoHostRank {
        /// The launchers looked for, each with a variable that it sets.
        looked_for: Vec<(&'static str, &'static str)>,
    },
    /// This build lacks GPU support.
    #[error(
        "{asked} needs GPUs, and this build has no GPU half: build with typed-nccl's feature `cuda`"
    )]
    NoCuda {
        /// What was requested.
        asked: String,
    },
    /// GPUs were requested for a program whose ranks are on the host.
    #[error(
        "TYPED_NCCL asks for GPUs, and `launch!(Host: ..)` runs ranks on the host alone: set TYPED_NCCL=host:4, or make the job generic over its device and call `launch!(job)`"
    )]
    HostAlone,
    /// One process was to run all ranks, but a launcher started several.
    #[error("{launched}, and {asked} asks for all ranks, so each of the {} processes would run all of them; use `launch!` or `Seat::from_env()`, without TYPED_NCCL or, for ranks on the CPU, with TYPED_NCCL=host; or leave the launcher out", .launched.size)]
    Copies {
        /// The launcher's description of this process.
        launched: Launched,
        /// What was requested.
        asked: String,
    },
    /// The ranks' processes could not be started.
    #[error("the ranks' processes cannot be started: {why}")]
    NoProcess {
        /// What was attempted, and why it failed.
        why: String,
    },
}

fn listed(launchers: &[(&str, &str)]) -> String {
    let each = launchers.iter().map(|(launcher, variable)| format!("{variable} ({launcher})"));
    each.collect::<Vec<_>>().join(", ")
}

fn on_this_machine(ranks: &Option<u32>) -> String {
    ranks.map_or_else(String::new, |here| format!(", {here} of them on this machine"))
}

fn are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}
