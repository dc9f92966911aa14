//! Structs of options, to which later versions may add fields.

/// Declares one: `#[non_exhaustive]`, with `new` for its `Default` and a method for each field that sets it.
#[macro_export]
macro_rules! options {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            /// The defaults.
            #[must_use]
            pub fn new() -> $name {
                $name::default()
            }

            $($(#[$doc])*
            #[must_use]
            pub fn $field(self, $field: $type) -> $name {
                $name { $field, ..self }
            })*
        }
    };
}
