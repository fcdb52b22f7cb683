//! `--set LAYER.KEY=V1,V2`: parameters of layers. Several values, and several options, multiply into runs.

use crate::error::Error;
use crate::layer::{self, LayerSpec};

/// Parts of one `--set`.
pub struct Setting {
    layer: &'static LayerSpec,
    key: String,
    values: Vec<String>,
}

/// One value of a parameter.
#[derive(Clone)]
pub struct SetValue {
    layer: &'static str,
    key: String,
    text: String,
}

impl Setting {
    /// Reads `layer.key=v1,v2`, where `layers` are those of the run.
    pub fn parse(text: &str, layers: &[&LayerSpec]) -> Result<Setting, Error> {
        let parts = text.split_once('=').and_then(|(name, values)| Some((name.split_once('.')?, values)));
        let Some(((name, key), values)) = parts else {
            return Err(Error::Usage(format!(
                "{{set}} {text}: expected LAYER.KEY=VALUE, such as set-assoc.cache_percent=1,2"
            )));
        };
        let layer = layer::find(name)?;
        if !layers.iter().any(|spec| spec.name == name) {
            return Err(Error::Usage(format!(
                "{{set}} {text}: {name} is not among the layers of this run: add it to {{layer}}"
            )));
        }
        let values = values.split(',').map(str::to_string).collect();
        Ok(Setting { layer, key: key.into(), values })
    }
}

/// Every combination of the values that `settings` have for `layers`.
pub fn combinations(settings: &[Setting], layers: &[&LayerSpec]) -> Vec<Vec<SetValue>> {
    let of_these = settings.iter().filter(|setting| layers.iter().any(|spec| spec.name == setting.layer.name));
    of_these.fold(vec![Vec::new()], |lists, setting| {
        let extended = |list: &Vec<SetValue>| {
            let value =
                |text: &String| SetValue { layer: setting.layer.name, key: setting.key.clone(), text: text.clone() };
            let add = |text| [list.as_slice(), &[value(text)]].concat();
            setting.values.iter().map(add).collect::<Vec<_>>()
        };
        lists.iter().flat_map(extended).collect()
    })
}

/// Settings of a layer in `values`, as (key, value).
pub fn of_layer(values: &[SetValue], layer: &LayerSpec) -> Vec<(String, String)> {
    let own = values.iter().filter(|value| value.layer == layer.name);
    own.map(|value| (value.key.clone(), value.text.clone())).collect()
}
