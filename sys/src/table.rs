//! The table of functions, grouped by the release that introduced them. Each is optional.

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::mem::transmute;

use crate::collectives::*;
use crate::comm::*;
use crate::device::*;
use crate::encryption::*;
use crate::error::{Failure, MissingSymbol};
use crate::group::*;
use crate::library::{Library, RCCLS_OWN};
use crate::loader::Origin;
use crate::memory::*;
use crate::p2p::*;
use crate::params::*;
use crate::properties::*;
use crate::reduction::*;
use crate::result::*;
use crate::rma::*;
use crate::team::*;
use crate::version::Version;
use crate::window::*;

macro_rules! table {
    ( $( $(#[$meta:meta])* $since:literal $group:ident: $Group:ident { $($name:ident,)* } )* ) => {
        $(
            $(#[$meta])*
            #[doc = concat!("\n\nIn NCCL ", $since, " and newer.")]
            #[derive(Clone, Copy, Default)]
            #[non_exhaustive]
            pub struct $Group {
                $(
                    #[doc = concat!("[`", stringify!($name), "`](type@crate::", stringify!($name), ")")]
                    pub $name: Option<$name>,
                )*
            }

            impl $Group {
                /// # Safety
                ///
                /// What `find` returns for a name is null or NCCL's function of that name.
                unsafe fn fill(find: &mut dyn FnMut(&CStr) -> *mut c_void) -> Self {
                    Self {
                        $($name: {
                            let address = find(Function::$name.c_name());
                            // SAFETY: null becomes None, because an optional function is a nullable
                            // pointer; anything else is NCCL's function of this name, by this
                            // function's contract, and the type is its declaration.
                            unsafe { transmute::<*mut c_void, Option<$name>>(address) }
                        },)*
                    }
                }
            }
        )*

        /// A function of NCCL's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Function {
            $( $(
                #[doc = concat!("[`", stringify!($name), "`](type@crate::", stringify!($name), ")")]
                $name,
            )* )*
        }

        impl Function {
            /// All that are declared, in the order in which releases brought them.
            pub const ALL: &'static [Self] = &[ $( $( Self::$name, )* )* ];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $( $( Self::$name => stringify!($name), )* )* }
            }

            /// The first release that has it; 2.18 stands for 2.18 and anything before.
            pub const fn since(self) -> Version {
                match self { $( $( Self::$name => const { Version::parse($since) }, )* )* }
            }

            const fn c_name(self) -> &'static CStr {
                match self {
                    $( $( Self::$name => const {
                        let bytes = concat!(stringify!($name), "\0").as_bytes();
                        match CStr::from_bytes_with_nul(bytes) {
                            Ok(name) => name,
                            Err(_) => panic!("an identifier has no zero"),
                        }
                    }, )* )*
                }
            }
        }

        /// A loaded NCCL: what it is, and its functions. It is never unloaded.
        ///
        /// The fields hold what is there; the methods of the functions' names say what is missing.
        #[non_exhaustive]
        pub struct Api {
            version: Version,
            library: Library,
            origin: Origin,
            $(
                #[doc = concat!("What ", $since, " introduced.")]
                pub $group: $Group,
            )*
        }

        impl Api {
            /// Whether the loaded library has a function.
            pub const fn has(&self, function: Function) -> bool {
                match function { $( $( Function::$name => self.$group.$name.is_some(), )* )* }
            }

            $( $(
                #[doc = concat!(
                    "The function [`", stringify!($name), "`](type@crate::", stringify!($name), ")."
                )]
                ///
                /// # Errors
                ///
                /// The loaded library lacks it.
                pub const fn $name(&self) -> Result<$name, MissingSymbol> {
                    match self.$group.$name {
                        Some(function) => Ok(function),
                        None => Err(self.missing(Function::$name)),
                    }
                }
            )* )*

            /// # Safety
            ///
            /// As of [`Self::from_symbols`].
            unsafe fn fill(
                version: Version,
                library: Library,
                origin: Origin,
                find: &mut dyn FnMut(&CStr) -> *mut c_void,
            ) -> Self {
                Self {
                    version,
                    library,
                    origin,
                    $($group: {
                        // SAFETY: this function's contract is that one's.
                        unsafe { $Group::fill(find) }
                    },)*
                }
            }
        }
    };
}

table! {
    /// The oldest functions.
    "2.18" v2_18: V2_18 {
        ncclGetVersion,
        ncclGetErrorString,
        ncclGetLastError,
        ncclGetUniqueId,
        ncclCommInitRank,
        ncclCommInitRankConfig,
        ncclCommInitAll,
        ncclCommSplit,
        ncclCommFinalize,
        ncclCommDestroy,
        ncclCommAbort,
        ncclCommGetAsyncError,
        ncclCommCount,
        ncclCommCuDevice,
        ncclCommUserRank,
        ncclRedOpCreatePreMulSum,
        ncclRedOpDestroy,
        ncclAllReduce,
        ncclBroadcast,
        ncclReduce,
        ncclAllGather,
        ncclReduceScatter,
        ncclBcast,
        ncclSend,
        ncclRecv,
        ncclGroupStart,
        ncclGroupEnd,
    }

    /// Memory and registration.
    "2.19.3" v2_19_3: V2_19_3 {
        ncclMemAlloc,
        ncclMemFree,
        ncclCommRegister,
        ncclCommDeregister,
    }

    /// Simulation.
    "2.22.3" v2_22_3: V2_22_3 {
        ncclGroupSimulateEnd,
    }

    /// Several ids.
    "2.23.4" v2_23_4: V2_23_4 {
        ncclCommInitRankScalable,
    }

    /// A function that was there before under a C++ name.
    "2.24.3" v2_24_3: V2_24_3 {
        ncclResetDebugInit,
    }

    /// Windows, and shrinking.
    "2.27.3" v2_27_3: V2_27_3 {
        ncclCommShrink,
        ncclCommWindowRegister,
        ncclCommWindowDeregister,
    }

    /// All-to-all, and the device API.
    "2.28.3" v2_28_3: V2_28_3 {
        ncclAlltoAll,
        ncclGather,
        ncclScatter,
        ncclDevCommCreate,
        ncclDevCommDestroy,
        ncclTeamWorld,
        ncclTeamLsa,
        ncclTeamRail,
        ncclTeamRankToWorld,
        ncclTeamRankToLsa,
        ncclLsaBarrierCreateRequirement,
        ncclLLA2ACalcSlots,
        ncclLLA2ACreateRequirement,
    }

    /// Revoking, and kernels that reach the network.
    "2.28.7" v2_28_7: V2_28_7 {
        ncclCommRevoke,
        ncclGinBarrierCreateRequirement,
    }

    /// One-sided operations, growing, and queries.
    "2.29.2" v2_29_2: V2_29_2 {
        ncclCommGetUniqueId,
        ncclCommGrow,
        ncclPutSignal,
        ncclSignal,
        ncclWaitSignal,
        ncclWinGetUserPtr,
        ncclCommQueryProperties,
        ncclGetLsaMultimemDevicePointer,
        ncclGetMultimemDevicePointer,
        ncclGetLsaDevicePointer,
        ncclGetPeerDevicePointer,
    }

    /// Suspending.
    "2.29.7" v2_29_7: V2_29_7 {
        ncclCommSuspend,
        ncclCommResume,
        ncclCommMemStats,
        ncclGinOutboxCreateRequirement,
        ncclGinInboxA2ACreateRequirement,
    }

    /// Parameters. 2.30.3 exports them, `nccl.h` declares them since 2.30.4.
    "2.30.3" v2_30_3: V2_30_3 {
        ncclParamBind,
        ncclParamGetI8,
        ncclParamGetI16,
        ncclParamGetI32,
        ncclParamGetI64,
        ncclParamGetU8,
        ncclParamGetU16,
        ncclParamGetU32,
        ncclParamGetU64,
        ncclParamGetStr,
        ncclParamGet,
        ncclParamGetParameter,
        ncclParamGetAllParameterKeys,
        ncclParamDumpAll,
    }

    /// Collectives with a configuration, and counted transfers. Of these, the header declares
    /// `ncclCftBarrierCreateRequirement`, and neither 2.31 nor 2.32 exports it.
    "2.31.2" v2_31_2: V2_31_2 {
        ncclAllReduceConfig,
        ncclBroadcastConfig,
        ncclReduceConfig,
        ncclAllGatherConfig,
        ncclReduceScatterConfig,
        ncclAlltoAllConfig,
        ncclGatherConfig,
        ncclScatterConfig,
        ncclTeamCft,
        ncclTeamCftMultimem,
        ncclGetMultimemDeviceLeInfo,
        ncclGetCftDeviceLeInfo,
        ncclGetPeerDeviceLeInfo,
        ncclCftBarrierCreateRequirement,
    }

    /// Encryption.
    "2.32.3" v2_32_3: V2_32_3 {
        ncclSetEncryption,
    }
}

impl Api {
    /// A table from addresses: a library that was found in another way, or a double.
    ///
    /// # Errors
    ///
    /// There is no `ncclGetVersion`, or it does not tell a version.
    ///
    /// # Safety
    ///
    /// What `find` returns for a name is null, or a function that has the type and the contract of
    /// NCCL's function of that name and stays valid until the process ends.
    pub unsafe fn from_symbols(
        origin: Origin,
        mut find: impl FnMut(&CStr) -> *mut c_void,
    ) -> Result<Self, Failure> {
        let address = find(Function::ncclGetVersion.c_name());
        // SAFETY: null becomes None; anything else is NCCL's function of this name, by this
        // function's contract.
        let get = unsafe { transmute::<*mut c_void, Option<ncclGetVersion>>(address) };
        let get = get.ok_or(Failure::NotNccl)?;
        let mut code: c_int = 0;
        // SAFETY: `code` is a place for one integer, which is all that the function asks for; it
        // may be called at any time, on any thread.
        let result = unsafe { get(&mut code) };
        if result != ncclResult_t::ncclSuccess {
            return Err(Failure::NoVersion(result));
        }
        let version = Version::from_code(code).ok_or(Failure::StrangeVersion(code))?;
        let is_rccl = RCCLS_OWN.iter().any(|name| !find(name).is_null());
        let library = if is_rccl { Library::Rccl } else { Library::Nccl };
        // SAFETY: this function's contract is that one's.
        Ok(unsafe { Self::fill(version, library, origin, &mut find) })
    }

    /// Whether it is NCCL or RCCL, told by a function that RCCL alone has.
    pub const fn library(&self) -> Library {
        self.library
    }

    /// The library's version, as it says itself; RCCL's is that of the NCCL that it follows.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Where it was found.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What is wrong when `function` is asked for and is not there.
    pub const fn missing(&self, function: Function) -> MissingSymbol {
        let (loaded, library) = (self.version, self.library);
        MissingSymbol { function, needs: function.since(), loaded, library }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions = Function::ALL.iter().filter(|function| self.has(**function)).count();
        f.debug_struct("Api")
            .field("version", &self.version)
            .field("library", &self.library)
            .field("origin", &self.origin)
            .field("functions", &functions)
            .finish()
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BOUND;

    unsafe extern "C" fn version_2_27_7(version: *mut c_int) -> ncclResult_t {
        // SAFETY: `from_symbols` passes a place for one integer.
        unsafe { version.write(22707) };
        ncclResult_t::ncclSuccess
    }

    unsafe extern "C" fn version_fails(_: *mut c_int) -> ncclResult_t {
        ncclResult_t(77)
    }

    unsafe extern "C" fn version_is_nonsense(_: *mut c_int) -> ncclResult_t {
        ncclResult_t::ncclSuccess
    }

    /// A library that has nothing but its version.
    fn double(version: ncclGetVersion) -> Result<Api, Failure> {
        let find = |name: &CStr| match name.to_bytes() {
            b"ncclGetVersion" => version as *mut c_void,
            _ => std::ptr::null_mut(),
        };
        // SAFETY: the only address is of a function of that name's type, which lives as long as
        // this program.
        unsafe { Api::from_symbols(Origin::Given("a double".to_owned()), find) }
    }

    #[test]
    fn what_is_missing_has_a_name() {
        let api = double(version_2_27_7).unwrap();
        assert_eq!(api.version(), Version::new(2, 27, 7));
        assert!(api.has(Function::ncclGetVersion));
        assert!(!api.has(Function::ncclCommGrow));
        assert_eq!(
            api.ncclCommGrow().unwrap_err(),
            MissingSymbol {
                function: Function::ncclCommGrow,
                needs: Version::new(2, 29, 2),
                loaded: Version::new(2, 27, 7),
                library: Library::Nccl,
            }
        );
        assert_eq!(
            api.ncclCommGrow().unwrap_err().to_string(),
            "ncclCommGrow needs NCCL 2.29.2, and 2.27.7 is loaded: load a newer library"
        );
        assert_eq!(
            api.ncclSend().unwrap_err().to_string(),
            "the loaded NCCL 2.27.7 does not export ncclSend, which NCCL declares since 2.18.0"
        );
    }

    #[test]
    fn not_every_library_is_nccl() {
        let nothing = |_: &CStr| std::ptr::null_mut();
        // SAFETY: it gives null for every name.
        let empty = unsafe { Api::from_symbols(Origin::Program, nothing) };
        assert_eq!(empty.unwrap_err(), Failure::NotNccl);
        assert_eq!(double(version_fails).unwrap_err(), Failure::NoVersion(ncclResult_t(77)));
        assert_eq!(double(version_is_nonsense).unwrap_err(), Failure::StrangeVersion(0));
    }

    #[test]
    fn the_table_is_in_order() {
        assert!(Function::ALL.is_sorted_by_key(|function| function.since()));
        assert!(Function::ALL.iter().all(|function| BOUND.at_least(function.since())));
        let mut names: Vec<_> = Function::ALL.iter().map(|function| function.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Function::ALL.len());
        assert_eq!(names.len(), 97);
    }
}
