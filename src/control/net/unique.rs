//! Communicator ids that a program distributes itself.

use std::fmt;
use std::net::SocketAddr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hub::{Command, Hub, NodeKey, hub};
use super::ident::{self, CommId};
use super::node::Meet;
use super::proof::Secret;
use crate::Result;

/// Where the ranks of one communicator meet, for programs that can send bytes between processes:
/// one process makes the id, the program sends it to the others, and each takes its seat with
/// [`Seat::with_id`](crate::Seat::with_id).
///
/// An id is for one communicator. The ranks meet in the process that made it, which must live until
/// they have met. It contains a secret: whoever has the id can take part.
///
/// ```no_run
/// use typed_nccl::{Result, Seat, UniqueId};
///
/// # fn send_to_others(bytes: &[u8]) {}
/// # fn receive_from_first() -> [u8; 128] { [0; 128] }
/// fn seat(rank: usize, size: usize) -> Result<Seat> {
///     let id = if rank == 0 {
///         let id = UniqueId::new()?;
///         send_to_others(&id.to_bytes());
///         id
///     } else {
///         UniqueId::from_bytes(receive_from_first())
///     };
///     Seat::with_id(id, rank, size)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UniqueId([u8; BYTES]);

const BYTES: usize = UniqueId::BYTES;

const LAYOUT: u8 = 2;

/// The layout, the id and the secret; the number of addresses and the addresses follow.
const HEAD: usize = 1 + 16 + 32;

impl UniqueId {
    /// The encoded length.
    pub const BYTES: usize = 128;

    /// A new id. The ranks meet in this process, which listens for them from now on.
    ///
    /// # Errors
    /// [`Error::InitFailed`](crate::Error::InitFailed): this process cannot listen.
    pub fn new() -> Result<Self> {
        Self::at(&*hub()?, None)
    }

    /// As [`new`](Self::new); with an `owner`, the rendezvous ends with that node.
    pub(super) fn at(hub: &Hub, owner: Option<NodeKey>) -> Result<Self> {
        let place = BootstrapHandle::new(hub.addresses.clone())?;
        place.open(hub, owner);
        Ok(Self::of(&place))
    }

    /// The id of a meeting in this process's memory, which has no addresses.
    pub(crate) fn here() -> Result<Self> {
        BootstrapHandle::new(Vec::new()).map(|place| Self::of(&place))
    }

    /// Whether the meeting is in memory.
    pub(crate) fn is_here(&self) -> bool {
        self.0[HEAD] == 0
    }

    /// The encoding, to be sent to the other ranks.
    pub fn to_bytes(self) -> [u8; BYTES] {
        self.0
    }

    /// Decodes [`to_bytes`](Self::to_bytes). [`Seat::with_id`](crate::Seat::with_id) refuses
    /// malformed bytes.
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    pub(super) fn of(place: &BootstrapHandle) -> Self {
        // As many addresses as fit.
        let encoded = (0..=place.addresses.len()).rev().find_map(|count| {
            let fields = (LAYOUT, place.id, place.secret.bytes(), &place.addresses[..count]);
            let mut bytes = [0; BYTES];
            postcard::to_slice(&fields, &mut bytes).is_ok().then_some(bytes)
        });
        // Without addresses it fits.
        Self(encoded.unwrap_or([0; BYTES]))
    }

    pub(super) fn place(&self) -> Result<BootstrapHandle, String> {
        type Fields = (u8, CommId, [u8; 32], Vec<SocketAddr>);

        match postcard::take_from_bytes::<Fields>(&self.0) {
            Ok(((LAYOUT, id, secret, addresses), _)) if !addresses.is_empty() => {
                Ok(BootstrapHandle { id, secret: Secret::of_bytes(secret), addresses })
            }
            _ => {
                Err("the id is none that `UniqueId::new` made: send all bytes of `to_bytes`"
                    .to_owned())
            }
        }
    }
}

/// Hides the secret.
impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UniqueId")
    }
}

impl Serialize for UniqueId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}

impl<'de> Deserialize<'de> for UniqueId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Vec::deserialize(deserializer)?;
        let needed = format!("{BYTES} bytes");
        let wrong = |bytes: Vec<u8>| D::Error::invalid_length(bytes.len(), &needed.as_str());
        bytes.try_into().map(Self).map_err(wrong)
    }
}

/// The addresses of a rendezvous, and the secret that admits a rank.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct BootstrapHandle {
    pub(super) id: CommId,
    pub(super) secret: Secret,
    pub(super) addresses: Vec<SocketAddr>,
}

impl BootstrapHandle {
    /// With a new id and secret.
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Result<Self> {
        let (id, secret) = (CommId(ident::random()?), Secret::of_bytes(ident::random()?));
        Ok(Self { id, secret, addresses })
    }

    /// Opens the rendezvous in this process. With an `owner`, it ends with that node.
    pub(super) fn open(&self, hub: &Hub, owner: Option<NodeKey>) {
        let (id, secret) = (self.id, self.secret.clone());
        hub.send(Command::Meet { id, secret, acceptor: None, owner, job: None });
    }

    /// The rendezvous as a rank sees it that has this handle; `name` is for errors.
    pub(super) fn meet(&self, name: String) -> Meet {
        let (id, addresses) = (self.id, self.addresses.clone());
        Meet { id, addresses, name, may_be_stale: false, host: None, job: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES, BootstrapHandle, UniqueId};
    use crate::control::net::fuzz::Dice;
    use crate::control::net::ident::CommId;
    use crate::control::net::proof::Secret;

    #[test]
    fn an_id_round_trips_with_as_many_addresses_as_fit() {
        let address = |text: &str| text.parse().expect("an address");
        let addresses = vec![address("10.0.0.1:80"), address("[2001:db8::1]:65535")];
        let place =
            BootstrapHandle { id: CommId([7; 16]), secret: Secret::of_text("x"), addresses };
        let id = UniqueId::of(&place);
        assert_eq!(UniqueId::from_bytes(id.to_bytes()).place().as_ref(), Ok(&place));
        let many = BootstrapHandle { addresses: vec![address("[2001:db8::1]:1"); 9], ..place };
        assert_eq!(UniqueId::of(&many).place().map(|place| place.addresses.len()), Ok(4));
        let bytes = postcard::to_stdvec(&id).expect("it is encoded");
        assert_eq!(postcard::from_bytes::<UniqueId>(&bytes).ok(), Some(id));
        assert!(postcard::from_bytes::<UniqueId>(&bytes[..100]).is_err());
        assert!(!format!("{id:?} {place:?}", place = id.place()).contains("120"));
    }

    #[test]
    fn malformed_ids_are_refused() {
        let dice = &mut Dice(0);
        for _ in 0..256 {
            if let Ok(place) = UniqueId::from_bytes([0; BYTES].map(|_: u8| dice.byte())).place() {
                assert!(!place.addresses.is_empty());
            }
        }
    }
}
