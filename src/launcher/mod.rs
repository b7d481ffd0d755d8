//! Launchers: which of them started this process as one rank of many, and what its variables say.
//!
//! Each launcher is a row of [`LAUNCHERS`], in a file of its own: the variables it sets, and how
//! they say where the ranks meet. Only [`Variables::here`] reads the environment, so tests can make
//! variables up.
//!
//! Launchers nest as a matter of course: srun starts one torchrun on each machine, or the daemons
//! of Open MPI's mpirun. The process then sees the variables of all, and the innermost launcher, by
//! [`Launcher::depth`], is the one that knows it. Two of one depth that disagree cannot be told
//! apart, and are refused.

mod by_hand;
mod flux;
mod hosts;
mod hydra;
mod mvapich;
mod open_mpi;
mod own;
mod pals;
mod rendezvous_address;
mod slurm;
mod torchrun;
mod variables;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails with what it did not expect")]
mod tests;

pub(crate) use own::{ADDRESS, LISTENER};
#[cfg(unix)]
pub(crate) use own::{LOCAL_RANK, RANK, SECRET, SIZE, TELLS};
pub(crate) use rendezvous_address::RendezvousAddress;
pub(crate) use variables::Variables;

use crate::Result;
use crate::error::{LaunchFault, Launched};

/// A launcher's variables.
struct Launcher {
    /// Its name in messages.
    name: &'static str,
    /// If any of these is set, this launcher started the process.
    marks: &'static [&'static str],
    /// An exception to `marks`.
    but: fn(&Variables) -> bool,
    rank: &'static str,
    /// The number of ranks: the first of these that is set.
    size: &'static [&'static str],
    /// The rank among those of its machine.
    local_rank: &'static str,
    /// Whether `local_rank` is always set.
    is_local_known: bool,
    /// Further variables that it sets.
    also: &'static [&'static str],
    /// A launcher that others start has the greater depth.
    depth: u8,
    /// A command line that gives every rank `TYPED_NCCL_ADDRESS`.
    with_address: &'static str,
    place: fn(&Variables, &Launched) -> Result<RendezvousAddress>,
}

/// Innermost first; at one depth, those that know more first.
const LAUNCHERS: [&Launcher; 9] = [
    &own::OWN,
    &torchrun::TORCHRUN,
    &by_hand::BY_HAND,
    &open_mpi::OPEN_MPI,
    &mvapich::MVAPICH,
    &hydra::HYDRA,
    &flux::FLUX,
    &slurm::SRUN,
    &pals::PALS,
];

/// A launcher and its information.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) launched: Launched,
    /// This launcher, and outer ones that agree with it.
    places: Vec<(Launched, fn(&Variables, &Launched) -> Result<RendezvousAddress>)>,
}

impl Found {
    /// Where the ranks meet: `TYPED_NCCL_ADDRESS`, or this launcher's variables, or those of an
    /// outer launcher that numbers the ranks alike.
    pub(crate) fn place(&self, variables: &Variables) -> Result<RendezvousAddress> {
        if let Some(address) = variables.get(ADDRESS) {
            return Ok(RendezvousAddress {
                addresses: vec![address.to_owned()],
                job: None,
                is_unique: true,
            });
        }
        let mut known = self.places.iter().map(|(launched, place)| place(variables, launched));
        let own = known.next().unwrap_or_else(|| {
            Err(LaunchFault::NoAddress { launched: self.launched.clone(), here: None }.into())
        });
        own.or_else(|error| known.find_map(Result::ok).ok_or(error))
    }
}

/// The launcher that started this process as a rank, if any.
///
/// # Errors
/// Variables that contradict each other, are incomplete, or do not parse.
pub(crate) fn find(variables: &Variables) -> Result<Option<Found>> {
    let candidates = LAUNCHERS.iter().filter(|launcher| launcher.is_there(variables));
    let (complete, half): (Vec<&&Launcher>, Vec<_>) =
        candidates.partition(|launcher| launcher.missing(variables).is_empty());
    let Some((innermost, others)) = complete.split_first() else {
        return half.first().map_or(Ok(None), |launcher| Err(launcher.half(variables).into()));
    };
    let launched = innermost.read(variables)?;
    let mut places = vec![(launched.clone(), innermost.place)];
    for other in others {
        match other.read(variables) {
            Ok(also) if (also.rank, also.size) == (launched.rank, launched.size) => {
                places.push((also, other.place));
            }
            Ok(also) if other.depth == innermost.depth => {
                return Err(LaunchFault::TwoLaunchers { launchers: [launched, also] }.into());
            }
            Err(error) if other.depth == innermost.depth => return Err(error),
            _ => {}
        }
    }
    Ok(Some(Found { launched, places }))
}

/// The variables that [`find`] looks for, for messages.
pub(crate) fn looked_for() -> Vec<(&'static str, &'static str)> {
    LAUNCHERS.iter().map(|launcher| (launcher.name, launcher.rank)).collect()
}

impl Launcher {
    fn is_there(&self, variables: &Variables) -> bool {
        self.marks.iter().any(|mark| variables.is_set(mark)) && !(self.but)(variables)
    }

    /// The variable that holds the size; the first candidate if none is set.
    fn size_in(&self, variables: &Variables) -> &'static str {
        self.size.iter().find(|name| variables.is_set(name)).unwrap_or(&self.size[0])
    }

    /// The variables that it always sets.
    fn needs(&self, variables: &Variables) -> Vec<&'static str> {
        let local = self.is_local_known.then_some(self.local_rank);
        let needs = [self.rank, self.size_in(variables)].into_iter().chain(local);
        needs.chain(self.also.iter().copied()).collect()
    }

    fn missing(&self, variables: &Variables) -> Vec<&'static str> {
        let mut missing = self.needs(variables);
        missing.retain(|name| !variables.is_set(name));
        missing
    }

    fn half(&self, variables: &Variables) -> LaunchFault {
        let missing = self.missing(variables);
        let mut found: Vec<_> = self.marks.iter().copied().chain(self.needs(variables)).collect();
        found.sort_unstable();
        found.dedup();
        found.retain(|name| variables.is_set(name));
        LaunchFault::Half { launcher: self.name, found, missing }
    }

    fn read(&self, variables: &Variables) -> Result<Launched> {
        let size_in = self.size_in(variables);
        let number = |name| variables.number(name).map(Option::unwrap_or_default);
        let (rank, size) = (number(self.rank)?, number(size_in)?);
        let local_rank = variables.number(self.local_rank)?;
        let launched = Launched {
            launcher: self.name,
            rank,
            size: size as usize,
            local_rank,
            with_address: self.with_address,
            variables: [self.rank, size_in, self.local_rank],
        };
        if rank >= size {
            return Err(LaunchFault::RankTooHigh { launched }.into());
        }
        Ok(launched)
    }
}

/// For launchers without an exception.
fn never(_: &Variables) -> bool {
    false
}
