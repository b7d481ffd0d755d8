//! How much of a GPU NCCL takes.

use super::settings::{Setting, Value};

/// The most thread blocks that NCCL starts for one operation: its channels.
const MOST_CTAS: u32 = 64;
/// The most thread blocks of a cluster, by CUDA.
const MOST_CLUSTER: u32 = 8;

/// How many thread blocks (CTAs) the kernels of a communicator take, or those of one collective: what they
/// have, a program's own kernels have not. What is not said is NCCL's choice.
///
/// ```
/// use typed_nccl::{CommConfig, CtaPolicy, Ctas};
///
/// let config = CommConfig::builder().ctas(Ctas::between(4, 16).cluster(4)).build();
/// let sparing = CommConfig::builder().ctas(Ctas::any().policy(CtaPolicy::Efficiency)).build();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[must_use = "it is an option of a configuration"]
pub struct Ctas {
    range: Option<(u32, u32)>,
    cluster: Option<u32>,
    multicast: Option<u32>,
    policy: Option<CtaPolicy>,
}

/// What NCCL spends thread blocks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CtaPolicy {
    /// As fast as it gets.
    Speed,
    /// Fewer thread blocks where that costs little. NCCL: `NCCL_CTA_POLICY_EFFICIENCY`, 2.27.
    Efficiency,
    /// None where copy engines can move the data: `all_gather`, `all_to_all`, `gather` and `scatter` of
    /// windows, on one NVLink domain. NCCL: `NCCL_CTA_POLICY_ZERO`, 2.28.
    Zero,
}

impl Ctas {
    /// As many as NCCL likes.
    pub const fn any() -> Self {
        Self { range: None, cluster: None, multicast: None, policy: None }
    }

    /// So many for each kernel: at least `least`, at most `most`, of 1 to 64. NCCL: `minCTAs` and `maxCTAs`,
    /// 2.17.
    pub const fn between(least: u32, most: u32) -> Self {
        Self { range: Some((least, most)), ..Self::any() }
    }

    /// So many for each kernel at most. NCCL: `maxCTAs`, 2.17.
    pub const fn at_most(most: u32) -> Self {
        Self::between(1, most)
    }

    /// Thread blocks of a cluster, 0 to 8. NCCL: `cgaClusterSize`, 2.17.
    pub const fn cluster(self, blocks: u32) -> Self {
        Self { cluster: Some(blocks), ..self }
    }

    /// Thread blocks of kernels that use NVLink's multicast, 1 to 64. NCCL: `nvlsCTAs`, 2.27.
    pub const fn multicast(self, blocks: u32) -> Self {
        Self { multicast: Some(blocks), ..self }
    }

    /// What thread blocks are spent for. NCCL: `CTAPolicy`, 2.27.
    pub const fn policy(self, policy: CtaPolicy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// What it asks for that NCCL would not take; none if it is well.
    pub(super) fn fault(&self) -> Option<String> {
        let Self { range, cluster, multicast, .. } = *self;
        if let Some((least, most)) = range
            && !(1 <= least && least <= most && most <= MOST_CTAS)
        {
            return Some(format!(
                "`Ctas::between({least}, {most})` is no range within 1 and {MOST_CTAS}"
            ));
        }
        if let Some(blocks) = cluster.filter(|blocks| *blocks > MOST_CLUSTER) {
            return Some(format!("`Ctas::cluster({blocks})` is more than {MOST_CLUSTER}"));
        }
        let blocks = multicast.filter(|blocks| !(1..=MOST_CTAS).contains(blocks))?;
        Some(format!("`Ctas::multicast({blocks})` is not within 1 and {MOST_CTAS}"))
    }

    pub(super) fn settings(&self, put: &mut impl FnMut(Setting)) {
        let number = |n: u32| Value::Number(n.cast_signed());
        // NCCL up to 2.31.1 takes the least only beside the most.
        if let Some((least, most)) = self.range {
            put(Setting::alike("Ctas::between", "minCTAs", number(least)));
            put(Setting::alike("Ctas::between", "maxCTAs", number(most)));
        }
        if let Some(blocks) = self.cluster {
            put(Setting::alike("Ctas::cluster", "cgaClusterSize", number(blocks)));
        }
        if let Some(blocks) = self.multicast {
            put(Setting::alike("Ctas::multicast", "nvlsCTAs", number(blocks)));
        }
        if let Some(policy) = self.policy {
            let (value, name) = match policy {
                CtaPolicy::Speed => (0, "Speed"),
                CtaPolicy::Efficiency => (1, "Efficiency"),
                CtaPolicy::Zero => (2, "Zero"),
            };
            put(Setting::alike("Ctas::policy", "CTAPolicy", Value::Named(value, name)));
        }
    }

    pub(super) fn cluster_size(&self) -> Option<u32> {
        self.cluster
    }

    /// Whether it asks for copy engines in the place of thread blocks.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_zero(&self) -> bool {
        self.policy == Some(CtaPolicy::Zero)
    }
}
