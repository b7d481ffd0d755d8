//! Agreement: every rank contributes to one exchange, and all ranks draw the same conclusion.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Core;
use super::values::{decode, mismatch};
use crate::backend::Backend;
use crate::control::{MOST_PARTS, Parts, Ticket, Topic, is_bounded};
use crate::error::{Error, Site};
use crate::{Result, unwind};

impl<B: Backend> Core<B> {
    /// Sends this rank's part of the next exchange without waiting. If the part cannot be sent, a
    /// refusal is sent in its place, so the other ranks fail too instead of waiting.
    pub(crate) fn post(
        &self,
        part: &impl Serialize,
        operation: Topic,
        site: Site,
    ) -> Result<Ticket> {
        let control = self.control()?;
        let encoded = unwind::catch(|| encode(part, control.most_bytes()));
        let encoded = encoded.unwrap_or_else(|panic| {
            // The message travels with the panic; the others learn that there is no value.
            control.refuse("a host-side call whose value panicked", site);
            panic.resume()
        });
        let bytes = encoded.map_err(|why| {
            control.refuse("a host-side call with a value that cannot be sent", site);
            mismatch(operation, self.own(), format!("has a value that cannot be sent ({why})"))
        })?;
        Ok(control.post(operation, site, bytes))
    }

    /// Sends this rank's part and waits on the host for all of them.
    pub(crate) fn exchange(
        &self,
        part: &impl Serialize,
        operation: Topic,
        site: Site,
    ) -> Result<(Ticket, Parts)> {
        let ticket = self.post(part, operation, site)?;
        Ok((ticket, self.collect(ticket, operation, site)?))
    }

    /// Decodes the parts of an exchange, by rank.
    pub(crate) fn read<V: DeserializeOwned>(
        &self,
        parts: &Parts,
        operation: Topic,
    ) -> Result<Vec<V>> {
        let own = self.own();
        let parts = parts.iter().enumerate();
        parts.map(|(rank, part)| decode(part, operation, own.beside(rank))).collect()
    }

    /// Returns every rank's part, by rank. The host waits for them.
    pub(crate) fn gather<V: Serialize + DeserializeOwned>(
        &self,
        part: &V,
        operation: Topic,
        site: Site,
    ) -> Result<Vec<V>> {
        let (_, parts) = self.exchange(part, operation, site)?;
        self.read(&parts, operation)
    }

    /// Waits on the host until all ranks have called it.
    pub(crate) fn barrier(&self, operation: Topic, site: Site) -> Result<Ticket> {
        self.exchange(&(), operation, site).map(|(ticket, _)| ticket)
    }

    /// Checks that all ranks are about to do the same thing. `words` describe what this rank is
    /// about to do, or why it cannot. If they differ between ranks, `differ` builds the error from
    /// them; a rank that failed returns its own error instead.
    ///
    /// Returns this rank's value, the number of the exchange, and every rank's value.
    pub(crate) fn agree<T, V: Serialize + DeserializeOwned>(
        &self,
        own: Result<T>,
        (words, value): (String, V),
        (operation, site): (Topic, Site),
        differ: impl FnOnce(Vec<String>) -> Error,
    ) -> Result<(T, u64, Vec<V>)> {
        let part = (words, value);
        let (ticket, parts) = self.exchange(&part, operation, site)?;
        let own = own?;
        let (all, values): (Vec<String>, Vec<V>) =
            self.read::<(String, V)>(&parts, operation)?.into_iter().unzip();
        if all.iter().any(|other| *other != part.0) {
            return Err(differ(all));
        }
        Ok((own, self.control()?.number(ticket), values))
    }
}

/// Encodes a part in at most `most` bytes, or says why it cannot be sent.
fn encode(part: &impl Serialize, most: usize) -> Result<Vec<u8>, String> {
    const INSTEAD: &str = "send a buffer instead, with `broadcast` or `all_gather`";

    if !is_bounded(part) {
        return Err(format!("it has more than {MOST_PARTS} parts; {INSTEAD}"));
    }
    let bytes = postcard::to_stdvec(part).map_err(|error| error.to_string())?;
    match bytes.len() {
        length if length > most => Err(format!(
            "it takes {length} bytes, and values between processes {most} at most; {INSTEAD}"
        )),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use serde::ser::{Error as _, Serialize, Serializer};

    use crate::error::Site;
    use crate::{CanEnqueue, Communicator, Host, Result, State, World, spmd};

    struct Unencodable;

    impl Serialize for Unencodable {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(S::Error::custom("of no use"))
        }
    }

    /// Rank 0 posts `part` and the others a number; returns this rank's error.
    fn told<W: World, S: State + CanEnqueue>(
        comm: &mut Communicator<W, S>,
        part: &impl Serialize,
    ) -> String {
        let core = &S::live_mut(&mut comm.body).core;
        let (topic, site) = ("agree", Site::caller());
        let ticket = match core.rank.index() {
            0 => core.post(part, topic, site),
            _ => core.post(&7_u32, topic, site),
        };
        let parts = ticket.and_then(|ticket| core.collect(ticket, topic, site));
        let values = parts.and_then(|parts| core.read::<u32>(&parts, topic));
        values.expect_err("one rank's part is no number").to_string()
    }

    #[test]
    fn a_part_that_does_not_encode_fails_on_every_rank() {
        let outcome = spmd::<Host>(2, |place| {
            let mut comm = place.init()?;
            let told = told(&mut comm, &Unencodable);
            let parts = match comm.rank().index() {
                0 => ["agree: rank 0 has a value", "cannot be sent"],
                _ => ["rank 0 called", "a value that cannot be sent"],
            };
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
            comm.barrier()?;
            comm.finish()
        });
        outcome.expect("both ranks go on");
    }

    #[test]
    fn a_part_that_does_not_decode_names_the_exchange_and_its_rank() {
        let outcome = spmd::<Host>(2, |place| {
            let mut comm = place.init()?;
            let told = told(&mut comm, &());
            assert!(told.contains("agree: rank 0 sent a value that does not read"), "{told}");
            comm.barrier()?;
            comm.finish()
        });
        outcome.expect("both ranks go on");
    }
}
