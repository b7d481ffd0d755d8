//! Host values exchanged between ranks over the control plane.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{CanEnqueue, Communicator, State};
use crate::control::{Parts, Topic};
use crate::error::{Error, Site, ValueMismatch};
use crate::{AsRank, Rank, Result, World};

/// ## Of values of the host
///
/// The host waits in them.
impl<W: World, S: State> Communicator<W, S> {
    /// Waits on the host until all ranks have called it. Does not wait for streams.
    ///
    /// # Errors
    /// [`Error::Timeout`] and [`Error::PeerFailed`] name the missing ranks;
    /// [`Error::ValueMismatch`]: a rank makes another host-side call instead.
    #[track_caller]
    pub fn barrier(&self) -> Result<()>
    where
        S: CanEnqueue,
    {
        let (core, site) = (&S::live(&self.body).core, Site::caller());
        core.may_call("barrier", site)?;
        core.barrier("barrier", site).map(drop)
    }

    /// Returns every rank's value, by rank. All ranks must call it with the same type; the host
    /// waits for them. For small values: configuration, losses, shapes.
    ///
    /// Types are compared by name, as [`std::any::type_name`] returns it.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); [`Error::ValueMismatch`] on every rank: values of different
    /// types, with both types and call sites; a value that cannot be serialized or has more than
    /// 2^26 parts.
    #[track_caller]
    pub fn gather_values<V: Serialize + DeserializeOwned>(&self, value: &V) -> Result<Vec<V>>
    where
        S: CanEnqueue,
    {
        self.gather_as("gather_values", value, Site::caller())
    }

    /// [`gather_values`](Self::gather_values) on behalf of another operation.
    pub(crate) fn gather_as<V: Serialize + DeserializeOwned>(
        &self,
        operation: Topic,
        value: &V,
        site: Site,
    ) -> Result<Vec<V>>
    where
        S: CanEnqueue,
    {
        let parts = self.exchange::<V>(value, operation, site)?;
        let values = of_one_type::<V>(&parts, operation, self.rank(), site)?;
        let own = self.rank();
        values.enumerate().map(|(at, value)| decode(value, operation, own.beside(at))).collect()
    }

    /// Returns the root's value on every rank; of the other values only the type matters. All ranks
    /// must call it; the host waits for them.
    ///
    /// # Errors
    /// As [`gather_values`](Self::gather_values); [`Error::NoSuchRank`].
    #[track_caller]
    pub fn broadcast_value<V: Serialize + DeserializeOwned>(
        &self,
        value: &V,
        root: impl AsRank,
    ) -> Result<V>
    where
        S: CanEnqueue,
    {
        let (operation, site) = ("broadcast_value", Site::caller());
        let core = &S::live(&self.body).core;
        let own = core.own();
        let Some(root) = core.number(root) else {
            core.control()?.refuse("broadcast_value with a root out of range", site);
            return Err(core.no_rank(operation, root, false, site));
        };
        // The root is sent along, because the ranks may disagree on it.
        let value = match root == own.index() {
            true => Some(value),
            false => None,
        };
        let parts = self.exchange::<V>(&(root, value), operation, site)?;
        let mut values = of_one_type::<V>(&parts, operation, own, site)?;
        for (rank, part) in values.clone().enumerate() {
            let (theirs, _): (usize, &[u8]) =
                postcard::take_from_bytes(part).unwrap_or((usize::MAX, &[]));
            if theirs != root {
                let found = format!("named root {theirs}, this rank named root {root}");
                return Err(mismatch(operation, own.beside(rank), found));
            }
        }
        let sent = values.nth(root).unwrap_or_default();
        let (_, value): (usize, Option<V>) = decode(sent, operation, own.beside(root))?;
        let nothing = || mismatch(operation, own.beside(root), "sent no value".to_owned());
        value.ok_or_else(nothing)
    }

    /// Compares the ranks' values, such as the last step that each has finished or its newest
    /// checkpoint. All ranks must call it; the host waits for them.
    ///
    /// ```
    /// # use typed_nccl::{Buffer, Communicator, Device, Result, World};
    /// fn catch_up<W: World>(
    ///     comm: &Communicator<W>,
    ///     step: &mut u64,
    ///     parameters: &mut Buffer<f32, W::Device>,
    /// ) -> Result<()> {
    ///     let steps = comm.agree(*step)?;
    ///     comm.broadcast_in_place(parameters, steps.rank_of_max())?;
    ///     *step = *steps.max();
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`gather_values`](Self::gather_values).
    #[track_caller]
    pub fn agree<V: InOrder + Serialize + DeserializeOwned>(&self, value: V) -> Result<Agreed<V>>
    where
        S: CanEnqueue,
    {
        let values = self.gather_as("agree", &value, Site::caller())?;
        let own = self.rank();
        let places = || values.iter().zip(0..);
        // The first of equal values.
        let max = places().max_by(|a, b| a.0.cmp(b.0).then(b.1.cmp(&a.1))).map(|(_, rank)| rank);
        let min = places().min_by_key(|place| *place).map(|(_, rank)| rank);
        match (min, max) {
            (Some(min), Some(max)) => {
                Ok(Agreed { values, min: own.beside(min), max: own.beside(max) })
            }
            // There is at least this rank's value.
            _ => Ok(Agreed { values: vec![value], min: own.beside(0), max: own.beside(0) }),
        }
    }

    /// Every rank's value, preceded by its type, which is `V`'s.
    fn exchange<V>(&self, value: &impl Serialize, operation: Topic, site: Site) -> Result<Parts>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.may_call(operation, site)?;
        let (_, parts) = core.exchange(&(Typed::of::<V>(site), value), operation, site)?;
        Ok(parts)
    }
}

/// A value of which [`agree`](Communicator::agree) finds the lowest and the highest: any type with
/// a total order.
///
/// Floats have none. Their values go through [`gather_values`](Communicator::gather_values):
///
/// ```
/// # use typed_nccl::{Communicator, InOrder, Result, World};
/// fn lowest<W: World>(comm: &Communicator<W>, loss: f64) -> Result<Option<f64>> {
///     Ok(comm.gather_values(&loss)?.into_iter().min_by(f64::total_cmp))
/// }
/// fn has_one(_: impl InOrder) {}
/// has_one((3_u64, "a step and a name"));
/// ```
#[diagnostic::on_unimplemented(
    message = "ranks cannot agree on a `{Self}`: it has no total order",
    label = "expected a value that is `Ord`, such as an integer",
    note = "for a float take all values, and compare them by `total_cmp`: `comm.gather_values(&x)?.into_iter().min_by(f64::total_cmp)`"
)]
pub trait InOrder: Ord {}

#[diagnostic::do_not_recommend]
impl<V: Ord> InOrder for V {}

/// The values of all ranks, at least one, as returned by [`Communicator::agree`].
///
/// ```
/// use typed_nccl::{Agreed, Host, spmd};
///
/// spmd::<Host>(2, |place| {
///     let comm = place.init()?;
///     let steps: Agreed<usize> = comm.agree(10 + comm.rank().index())?;
///     assert_eq!((*steps.min(), *steps.max(), steps.values()), (10, 11, [10, 11].as_slice()));
///     assert!(steps.rank_of_max() == 1 && !steps.is_unanimous());
///     comm.finish()
/// })
/// .expect("both ranks end well");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "it says what the ranks have"]
pub struct Agreed<V> {
    values: Vec<V>,
    min: Rank,
    max: Rank,
}

impl<V> Agreed<V> {
    /// The lowest value: for checkpoints, the newest that every rank has reached.
    pub fn min(&self) -> &V {
        &self.values[self.min.index()]
    }

    /// The highest value: for steps, the furthest that any rank has come.
    pub fn max(&self) -> &V {
        &self.values[self.max.index()]
    }

    /// The first rank with the lowest value.
    pub fn rank_of_min(&self) -> Rank {
        self.min
    }

    /// The first rank with the highest value.
    pub fn rank_of_max(&self) -> Rank {
        self.max
    }

    /// All values, by rank.
    pub fn values(&self) -> &[V] {
        &self.values
    }
}

impl<V: PartialEq> Agreed<V> {
    /// Whether all values are equal.
    pub fn is_unanimous(&self) -> bool {
        self.min() == self.max()
    }
}

/// Precedes a rank's value, because bytes of one type may decode as another.
#[derive(Serialize, Deserialize)]
struct Typed<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
}

impl Typed<'static> {
    fn of<V>(site: Site) -> Self {
        Self { name: std::any::type_name::<V>(), file: site.file(), line: site.line() }
    }
}

/// Returns the ranks' values without their types, after checking that the types are equal.
fn of_one_type<V>(
    parts: &Parts,
    operation: Topic,
    rank: Rank,
    site: Site,
) -> Result<impl Iterator<Item = &[u8]> + Clone> {
    let own = Typed::of::<V>(site);
    // Every part begins with a type, because other calls have other topics.
    let split = |part| postcard::take_from_bytes::<Typed<'_>>(part).ok();
    for (at, part) in parts.iter().enumerate() {
        let Some((theirs, _)) = split(part).filter(|(theirs, _)| theirs.name != own.name) else {
            continue;
        };
        let found = format!(
            "gave a `{}` (at {}:{}), this rank a `{}` (at {}:{})",
            theirs.name, theirs.file, theirs.line, own.name, own.file, own.line
        );
        return Err(mismatch(operation, rank.beside(at), found));
    }
    Ok(parts.iter().map(move |part| split(part).map_or(&[][..], |(_, value)| value)))
}

pub(super) fn decode<V: DeserializeOwned>(value: &[u8], operation: Topic, rank: Rank) -> Result<V> {
    let wrong = |why: String| {
        let expected = std::any::type_name::<V>();
        mismatch(
            operation,
            rank,
            format!("sent a value that does not read as `{expected}` ({why})"),
        )
    };
    match postcard::take_from_bytes(value) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(wrong(format!("{} bytes are left over", rest.len()))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

pub(super) fn mismatch(operation: Topic, rank: Rank, found: String) -> Error {
    ValueMismatch { operation, rank, found }.into()
}
