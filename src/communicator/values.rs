//! Host values between the ranks, over the control plane.

use std::panic::Location;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CanEnqueue, Communicator, State};
use crate::control::Parts;
use crate::error::{Error, NoSuchRank, Site, ValueMismatch};
use crate::{AsRank, Rank, Result, World, unwind};

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
        self.exchange("barrier", Vec::new(), Location::caller()).map(drop)
    }

    /// Every rank's value, by rank. All ranks must call it with one type; the host waits for them.
    /// For small values: configuration, losses, shapes.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); [`Error::ValueMismatch`] names a rank whose value does not
    /// read as a `V`.
    #[track_caller]
    pub fn gather_values<V: Serialize + DeserializeOwned>(&self, value: &V) -> Result<Vec<V>>
    where
        S: CanEnqueue,
    {
        let (operation, site) = ("gather_values", Location::caller());
        let bytes = self.encode(value, operation, site)?;
        let parts = self.exchange(operation, bytes, site)?;
        parts
            .iter()
            .enumerate()
            .map(|(rank, part)| decode(part, operation, Rank::at(rank)))
            .collect()
    }

    /// The root's value on every rank; the others' are not looked at. All ranks must call it; the
    /// host waits for them.
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
        let (operation, site) = ("broadcast_value", Location::caller());
        let (root, size) = (root.index(), self.size());
        if root >= size {
            self.refuse_exchange("broadcast_value with a root out of range", site)?;
            return Err(Error::NoSuchRank(Box::new(NoSuchRank {
                operation,
                asked: root,
                size,
                site,
                collective: false,
            })));
        }
        // The root travels with the value: the ranks may disagree on it.
        let value = match root == self.rank().index() {
            true => Some(value),
            false => None,
        };
        let bytes = self.encode(&(root, value), operation, site)?;
        let parts = self.exchange(operation, bytes, site)?;
        for (rank, part) in parts.iter().enumerate() {
            let (theirs, _): (usize, &[u8]) =
                postcard::take_from_bytes(part).unwrap_or((usize::MAX, &[]));
            if theirs != root {
                let found = format!("named root {theirs}, this rank named root {root}");
                return Err(mismatch(operation, Rank::at(rank), found));
            }
        }
        let (_, value): (usize, Option<V>) = decode(&parts[root], operation, Rank::at(root))?;
        let nothing = || mismatch(operation, Rank::at(root), "sent no value".to_owned());
        value.ok_or_else(nothing)
    }

    fn exchange(&self, operation: &'static str, bytes: Vec<u8>, site: Site) -> Result<Parts>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.health.check()?;
        core.may_wait(operation, site)?;
        let control = core.control()?;
        let ticket = control.post(operation, site, bytes);
        core.collect(ticket, operation, site)
    }

    /// Takes this rank's turn with a call that no other rank's matches, so that they are told.
    #[cold]
    fn refuse_exchange(&self, what: &'static str, site: Site) -> Result<()>
    where
        S: CanEnqueue,
    {
        S::live(&self.body).core.control()?.refuse(what, site);
        Ok(())
    }

    fn encode<V: Serialize>(
        &self,
        value: &V,
        operation: &'static str,
        site: Site,
    ) -> Result<Vec<u8>>
    where
        S: CanEnqueue,
    {
        let encoded = unwind::catch(|| postcard::to_stdvec(value)).unwrap_or_else(|panic| {
            // What it said goes on with the panic; the others learn that there is no value.
            let _ = self.refuse_exchange("a host-side call whose value panicked", site);
            panic.resume()
        });
        encoded.or_else(|error| {
            self.refuse_exchange("a host-side call with a value that cannot be sent", site)?;
            let found = format!("has a value that cannot be sent ({error})");
            Err(mismatch(operation, self.rank(), found))
        })
    }
}

fn decode<V: DeserializeOwned>(part: &[u8], operation: &'static str, rank: Rank) -> Result<V> {
    let wrong = |why: String| {
        let expected = std::any::type_name::<V>();
        mismatch(
            operation,
            rank,
            format!("sent a value that does not read as `{expected}` ({why})"),
        )
    };
    match postcard::take_from_bytes(part) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(wrong(format!("{} bytes are left over", rest.len()))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

fn mismatch(operation: &'static str, rank: Rank, found: String) -> Error {
    Error::ValueMismatch(Box::new(ValueMismatch { operation, rank, found }))
}
