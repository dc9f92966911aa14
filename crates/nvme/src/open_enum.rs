//! The `open_enum!` macro: an integer newtype with named values that keeps unknown ones.

/// Declares a newtype over an unsigned integer with named constants.
///
/// Unlike a Rust `enum`, every bit pattern is a value: what a device sends round-trips, and a value without a
/// name prints as hexadecimal. Each constant carries the specification's own words for [`name`](Self::name).
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $Type:ident: $int:ident {
            $( $(#[$doc:meta])* $VALUE:ident = $bits:literal, $name:literal; )*
        }
    ) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        pub struct $Type(pub $int);

        impl $Type {
            $(
                #[doc = concat!($name, " (", stringify!($bits), ").")]
                $(#[$doc])*
                pub const $VALUE: Self = Self($bits);
            )*

            /// Every value with a name, in the specification's order.
            pub const KNOWN: &'static [Self] = &[$(Self::$VALUE),*];

            /// Wraps raw bits; any value is valid.
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits)
            }

            /// The raw bits.
            pub const fn into_bits(self) -> $int {
                self.0
            }

            /// The specification's name, or `None` for a reserved or vendor specific value.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($bits => Some($name),)*
                    _ => None,
                }
            }
        }

        impl From<$int> for $Type {
            fn from(bits: $int) -> Self {
                Self(bits)
            }
        }

        impl From<$Type> for $int {
            fn from(value: $Type) -> Self {
                value.0
            }
        }

        impl core::fmt::Display for $Type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => write!(f, "{:X}h", self.0),
                }
            }
        }

        impl core::fmt::Debug for $Type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let constant = match self.0 {
                    $($bits => stringify!($VALUE),)*
                    _ => return write!(f, concat!(stringify!($Type), "({:#x})"), self.0),
                };
                write!(f, concat!(stringify!($Type), "::{}"), constant)
            }
        }

        const _: () = assert!(size_of::<$Type>() == size_of::<$int>());
    };
}

/// Declares a bitfield over an integer that is also a wire type: comparable, and viewable as bytes.
macro_rules! dword {
    (
        $(#[$meta:meta])*
        pub struct $Type:ident: $int:ident { $($fields:tt)* }
    ) => {
        $(#[$meta])*
        #[bitfield_struct::bitfield($int)]
        #[derive(
            PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        pub struct $Type { $($fields)* }

        const _: () = assert!(size_of::<$Type>() == size_of::<$int>());
    };
}

/// Declares structures of whole pages: all their values are valid, so they start as zeros or as bytes.
macro_rules! zeroed {
    ($($Type:ty),* $(,)?) => {
        $(
            impl $Type {
                /// All zeros.
                pub fn zeroed() -> Self {
                    zerocopy::FromZeros::new_zeroed()
                }
            }

            impl Default for $Type {
                fn default() -> Self {
                    Self::zeroed()
                }
            }
        )*
    };
}

pub(crate) use {dword, open_enum, zeroed};
