//! How far a peer is, as it is written: what leads to one rank here may lead to two among more
//! ranks.

use typed_nccl_plan::ir::{Hop, Peer};

use crate::instance::Instance;
use crate::number::{Malformed, Scope};

/// The extents and parameters that numbers are looked at with.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) extents: Vec<i64>,
    pub(crate) params: Vec<Vec<i64>>,
}

/// Factors of the extents: they keep what divides them, and no two axes are alike.
const FACTORS: [[i64; 4]; 2] = [[1009, 1013, 1019, 1021], [2003, 2011, 2017, 2027]];

impl World {
    /// Two with more of everything.
    pub(crate) fn larger(&self) -> [Self; 2] {
        FACTORS.map(|factors| {
            let own = self.extents.iter().zip(factors.iter().cycle());
            let extents = own.map(|(extent, factor)| extent * factor).collect();
            let mut added = 0;
            let mut more = |value: &i64| {
                added += 31;
                value.saturating_mul(factors[3] + 6).saturating_add(added)
            };
            let lists = self.params.iter();
            let params = lists.map(|list| list.iter().map(&mut more).collect()).collect();
            Self { extents, params }
        })
    }
}

/// A way along each axis, at each of the larger sizes.
#[derive(Clone, Debug)]
pub(crate) struct Far(Vec<Way>);

/// A way along one axis, and how long that is if it is a ring.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    by: i64,
    ring: Option<i64>,
}

impl Way {
    fn new(by: i64, ring: Option<i64>) -> Self {
        let shorter = |of: i64| {
            let by = by.rem_euclid(of);
            if by * 2 > of { by - of } else { by }
        };
        Self { by: ring.map_or(by, shorter), ring }
    }
}

impl PartialEq for Far {
    fn eq(&self, other: &Self) -> bool {
        let by = |far: &Self| far.0.iter().map(|way| way.by).collect::<Vec<_>>();
        by(self) == by(other)
    }
}

impl Far {
    /// `None` for a peer that is given as a number.
    pub(crate) fn new(instance: &Instance<'_>, scope: Scope<'_>, peer: &Peer) -> Option<Self> {
        if let Peer::Cases(cases) = peer {
            let holds = scope.holds(&cases.condition).ok()?;
            return Self::new(instance, scope, if holds { &cases.then } else { &cases.otherwise });
        }
        let Peer::Shift(hops) = peer else { return None };
        let mut far = vec![Way::default(); instance.world.extents.len() * 2];
        for hop in hops {
            let worlds = instance.larger.each_ref();
            let [one, other] = worlds.map(|world| way(Scope { world, ..scope }, hop));
            let ways = match (one, other) {
                (Ok(one), Ok(other)) => [one, other],
                _ => [way(scope, hop).ok()?; 2],
            };
            far.get_mut(hop.axis.index() * 2..)?.get_mut(..2)?.copy_from_slice(&ways);
        }
        Some(Self(far))
    }

    /// The way back.
    pub(crate) fn back(&self) -> Self {
        Self(self.0.iter().map(|way| Way::new(-way.by, way.ring)).collect())
    }
}

fn way(scope: Scope<'_>, hop: &Hop) -> Result<Way, Malformed> {
    let extent = scope.world.extents.get(hop.axis.index()).copied();
    Ok(Way::new(scope.number(&hop.by)?, extent.filter(|_| hop.wrap)))
}
