//! What the facts of a machine mean.

mod devices;
mod forwarding;
mod obstacle;
mod path;
mod platform;
mod report;

pub use path::{Choice, Route};
pub use report::{Report, Verdict};

/// The command that adds a parameter to the kernel's command line, or takes one away, on systems with GRUB.
fn kernel_parameter(edit: &str) -> String {
    format!("sudo sed -i '{edit}' /etc/default/grub && sudo update-grub && sudo reboot")
}

fn add_parameter(parameter: &str) -> String {
    kernel_parameter(&format!("s/^GRUB_CMDLINE_LINUX=\"/&{parameter} /"))
}

fn drop_parameter(parameter: &str) -> String {
    kernel_parameter(&format!("s/ *{parameter}//"))
}
