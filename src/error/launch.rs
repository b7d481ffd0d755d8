//! What is wrong with how this process was started.

use std::fmt;

use super::Error;

/// This process cannot become the rank, or have the ranks, that its environment and the program ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLaunch {
    /// What is wrong.
    pub why: LaunchFault,
}

impl fmt::Display for BadLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl From<LaunchFault> for Error {
    fn from(why: LaunchFault) -> Self {
        Self::BadLaunch(Box::new(BadLaunch { why }))
    }
}

/// What a launcher says about this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launched {
    /// The launcher.
    pub launcher: &'static str,
    /// This process's rank.
    pub rank: u32,
    /// How many ranks there are.
    pub size: usize,
    /// The rank among those of its machine, if the launcher says so.
    pub local_rank: Option<u32>,
    /// A command line of the launcher's that says where rank 0 runs.
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

/// Why this process cannot become a rank. Its text says what mends it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LaunchFault {
    /// No launcher started this process.
    NoLauncher {
        /// The launchers looked for, each with a variable that it sets.
        looked_for: Vec<(&'static str, &'static str)>,
    },
    /// Some of a launcher's variables are set.
    Half {
        /// The launcher.
        launcher: &'static str,
        /// Those that are set.
        found: Vec<&'static str>,
        /// Those that are not.
        missing: Vec<&'static str>,
    },
    /// A variable that holds no number.
    NotANumber {
        /// Which.
        variable: &'static str,
        /// What it holds.
        found: String,
    },
    /// A variable that holds no list of machines.
    NoHosts {
        /// Which.
        variable: &'static str,
        /// What it holds.
        found: String,
    },
    /// The rank is not below the size.
    RankTooHigh {
        /// What the launcher says.
        launched: Launched,
    },
    /// Two launchers, neither of which is known to start the other, and which disagree.
    TwoLaunchers {
        /// What each says.
        launchers: [Launched; 2],
    },
    /// Nothing says where rank 0 is.
    NoAddress {
        /// What the launcher says.
        launched: Launched,
        /// How many ranks run on this machine, if the launcher says so.
        here: Option<u32>,
    },
    /// Nothing says which of several GPUs is this process's.
    NoLocalRank {
        /// What the launcher says.
        launched: Launched,
        /// How many GPUs this process sees.
        gpus: usize,
    },
    /// Ranks in processes of their own, and no GPU for this one.
    NoGpu {
        /// What the launcher says.
        launched: Launched,
        /// Why there is none.
        why: String,
    },
    /// This build has no GPU half.
    NoCuda {
        /// What was asked for.
        asked: String,
    },
    /// One process was asked to have all ranks, and it is one of many.
    Copies {
        /// What the launcher says.
        launched: Launched,
        /// What was asked for.
        asked: String,
    },
    /// The processes of the ranks could not be started.
    NoProcess {
        /// What was done, and why it failed.
        why: String,
    },
}

impl fmt::Display for LaunchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLauncher { looked_for } => {
                f.write_str("no launcher started this process; looked for")?;
                for (at, (launcher, variable)) in looked_for.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma} {variable} ({launcher})")?;
                }
                f.write_str(
                    "; start it by one of these, or use `Seat::local(n)` for ranks in one process",
                )
            }
            Self::Half { launcher, found, missing } => write!(
                f,
                "{} {} set, as {launcher} would, and {} {} not; set the rest, or unset what is there to run without a launcher",
                found.join(", "),
                are(found.len()),
                missing.join(", "),
                are(missing.len()),
            ),
            Self::NotANumber { variable, found } => {
                write!(
                    f,
                    "{variable} is `{found}`, which is no number that it can be; a launcher sets it, so look for what changed it"
                )
            }
            Self::NoHosts { variable, found } => write!(
                f,
                "{variable} is `{found}`, which does not read as a list of machines such as `gpu[01-03,07]`; TYPED_NCCL_ADDRESS=host:port says where rank 0 runs instead"
            ),
            Self::RankTooHigh { launched: Launched { launcher, rank, size, variables, .. } } => {
                write!(
                    f,
                    "{} is {rank} and {} is {size} (by {launcher}): ranks are numbered from 0 to one less than their number; look for what changed them",
                    variables[0], variables[1]
                )
            }
            Self::TwoLaunchers { launchers: [one, two] } => write!(
                f,
                "{one}, and {two}: they disagree, and neither is known to start the other; unset the variables of the one that does not count"
            ),
            Self::NoAddress { launched, here } => {
                write!(f, "{launched}")?;
                if let Some(here) = here {
                    write!(f, ", {here} of them on this machine")?;
                }
                write!(
                    f,
                    ", and nothing says where rank 0 runs; set TYPED_NCCL_ADDRESS=host:port on all ranks, with rank 0's machine and a port that is free there: {}",
                    launched.with_address
                )
            }
            Self::NoLocalRank { launched, gpus } => write!(
                f,
                "{launched}, it sees {gpus} GPUs, and nothing says which is its own; set {}, or let each process see one GPU (CUDA_VISIBLE_DEVICES)",
                launched.variables[2]
            ),
            Self::NoGpu { launched, why } => write!(
                f,
                "{launched}, and ranks in processes of their own need a GPU each: {why}; without GPUs, leave the launcher out: TYPED_NCCL=host:{} runs as many ranks as threads of one process",
                launched.size
            ),
            Self::NoCuda { asked } => write!(
                f,
                "{asked} needs GPUs, and this build has no GPU half: build with typed-nccl's feature `cuda`"
            ),
            Self::Copies { launched, asked } => write!(
                f,
                "{launched}, and {asked} asks for all ranks, so each of the {} processes would run all of them; use `launch!` or `Seat::from_env()` without TYPED_NCCL, or leave the launcher out",
                launched.size
            ),
            Self::NoProcess { why } => write!(f, "the ranks' processes cannot be started: {why}"),
        }
    }
}

fn are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}
