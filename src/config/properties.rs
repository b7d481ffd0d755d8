//! Capabilities of a communicator.

use std::fmt;

use crate::Rank;

/// What a communicator supports, as [`Communicator::properties`](crate::Communicator::properties)
/// returns it. Unless noted otherwise, a field is `None` if a later release than the loaded one
/// added it. NCCL: `ncclCommProperties_t`.
///
/// ```
/// # use typed_nccl::{Host, Properties, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let found: Properties = comm.properties()?;
/// assert!(found.device_api && found.one_sided != Some(false));
/// assert_eq!((found.size, found.nvml_device), (1, None));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Properties {
    /// This rank.
    pub rank: Rank,
    /// The number of ranks.
    pub size: usize,
    /// The ordinal of its device.
    pub device: u32,
    /// NVML's index of the GPU. `None` on the host.
    pub nvml_device: Option<u32>,
    /// Whether kernels can communicate by themselves, with device communicators
    /// ([`device_api`](crate::Communicator::device_api)). On the host, closures can.
    pub device_api: bool,
    /// Whether NVLink multicast is available: [`multimem_ptr`](crate::Communicator::multimem_ptr).
    pub multimem: bool,
    /// The best transport for kernels to other nodes. NCCL 2.29.7.
    pub gin: Option<GinType>,
    /// The number of sets of ranks that can access each other's memory: one if all of them can
    /// ([`lsa_team`](crate::Communicator::lsa_team)). NCCL 2.29.7.
    pub lsa_teams: Option<usize>,
    /// Whether one-sided operations are available (`put_signal`, `signal`, `wait_signal`). NCCL
    /// 2.29.7.
    pub one_sided: Option<bool>,
    /// The best transport for kernels to other nodes within a rail. NCCL 2.29.7.
    pub railed_gin: Option<GinType>,
    /// A hash that all ranks of this communicator share and that distinguishes it from most others.
    /// `None` on the host. NCCL 2.31.2.
    pub hash: Option<u64>,
    /// The smallest stride for kernel connections with a custom stride. NCCL 2.31.2.
    pub gin_min_stride: Option<usize>,
    /// Which ranks kernels can reach over the network. NCCL 2.31.2.
    pub gin_connections: Option<GinConnections>,
    /// All transports for kernels to other nodes. NCCL 2.31.2.
    pub gin_types: Option<Vec<GinType>>,
    /// The size in bytes of a device communicator of the loaded release. NCCL 2.31.2.
    pub device_comm_bytes: Option<usize>,
    /// Whether counted transfers are available. NCCL 2.32.3.
    pub cft: Option<bool>,
    /// Whether counted transfers by multicast are available. NCCL 2.32.3.
    pub cft_multicast: Option<bool>,
    /// Whether windows for counted transfers are available. NCCL 2.32.3.
    pub cft_counted: Option<bool>,
}

/// A transport for kernels to other nodes. NCCL: `ncclGinType_t`.
///
/// ```
/// # use typed_nccl::{GinType, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// match comm.properties()?.gin {
///     None | Some(GinType::None) => println!("kernels reach no other node"),
///     Some(GinType::Proxy) => println!("through a host thread"),
///     Some(direct) => println!("directly: {direct:?}"),
/// }
/// assert_eq!(GinType::from_code(GinType::Gdaki.code()), GinType::Gdaki);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GinType {
    /// None.
    None,
    /// Through a host thread.
    Proxy,
    /// Directly, with DOCA.
    Gdaki,
    /// Directly, with GPI.
    Gpi,
    /// Directly, on EFA.
    EfaGda,
    /// A number that no release up to 2.32.3 has.
    Unknown(i32),
}

impl GinType {
    /// The type with NCCL's number.
    pub fn from_code(code: i32) -> Self {
        let known = [Self::None, Self::Proxy, Self::Gdaki, Self::Gpi, Self::EfaGda];
        let found = known.into_iter().find(|known| known.code() == code);
        found.unwrap_or(Self::Unknown(code))
    }

    /// NCCL's number.
    pub fn code(self) -> i32 {
        match self {
            Self::None => 0,
            Self::Proxy => 2,
            Self::Gdaki => 3,
            Self::Gpi => 4,
            Self::EfaGda => 5,
            Self::Unknown(code) => code,
        }
    }
}

/// Which ranks kernels can reach over the network. NCCL: `ncclGinConnectionType_t`.
///
/// ```
/// # use typed_nccl::{GinConnections, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let rail_only = comm.properties()?.gin_connections == Some(GinConnections::Rail);
/// assert!(!rail_only && GinConnections::from_code(99) == GinConnections::Unknown(99));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GinConnections {
    /// None.
    None,
    /// All.
    Full,
    /// Those on the same rail.
    Rail,
    /// Those at a requested stride.
    CustomStride,
    /// A number that no release up to 2.32.3 has.
    Unknown(i32),
}

impl GinConnections {
    /// The connections with NCCL's number.
    pub fn from_code(code: i32) -> Self {
        let known = [Self::None, Self::Full, Self::Rail, Self::CustomStride];
        let found = known.into_iter().find(|known| known.code() == code);
        found.unwrap_or(Self::Unknown(code))
    }

    /// NCCL's number.
    pub fn code(self) -> i32 {
        match self {
            Self::None => 0,
            Self::Full => 1,
            Self::Rail => 2,
            Self::CustomStride => 3,
            Self::Unknown(code) => code,
        }
    }
}

impl Properties {
    /// The properties of ranks that are threads of one process.
    pub(crate) fn of_host(rank: Rank, size: usize, device: u32) -> Self {
        Self {
            rank,
            size,
            device,
            nvml_device: None,
            device_api: true,
            multimem: false,
            gin: Some(GinType::None),
            lsa_teams: Some(1),
            one_sided: Some(true),
            railed_gin: Some(GinType::None),
            hash: None,
            gin_min_stride: Some(0),
            gin_connections: Some(GinConnections::None),
            gin_types: Some(Vec::new()),
            device_comm_bytes: Some(0),
            cft: Some(false),
            cft_multicast: Some(false),
            cft_counted: Some(false),
        }
    }
}

/// One line per property, with NCCL's names.
impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn known<T: fmt::Debug>(value: &Option<T>) -> String {
            value.as_ref().map_or_else(|| "not known".to_owned(), |value| format!("{value:?}"))
        }
        let Self { rank, size, device, .. } = self;
        writeln!(
            f,
            "rank {rank} of {size}, on device {device} (NVML: {})",
            known(&self.nvml_device)
        )?;
        let lines = [
            ("deviceApiSupport", self.device_api.to_string()),
            ("multimemSupport", self.multimem.to_string()),
            ("ginType", known(&self.gin)),
            ("nLsaTeams", known(&self.lsa_teams)),
            ("hostRmaSupport", known(&self.one_sided)),
            ("railedGinType", known(&self.railed_gin)),
            ("commHash", known(&self.hash)),
            ("ginMinStride", known(&self.gin_min_stride)),
            ("ginConnectionType", known(&self.gin_connections)),
            ("ginSupport", known(&self.gin_types)),
            ("devCommRuntimeVersionSize", known(&self.device_comm_bytes)),
            ("cftSupport", known(&self.cft)),
            ("cftMulticastSupport", known(&self.cft_multicast)),
            ("cftCountedSupport", known(&self.cft_counted)),
        ];
        lines.iter().try_for_each(|(name, value)| writeln!(f, "{name}: {value}"))
    }
}
