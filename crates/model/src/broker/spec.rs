//! What a resource of kind `rabbitmq` says: where the broker is and as whom to go there. The password is a reference.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{AmqpUrl, NotAnAmqpUrl};
use crate::name::ResourceName;
use crate::resource::{BadSpec, Checks};
use crate::secret::looks_secret;

/// A RabbitMQ broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RabbitmqSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `amqp://HOST:PORT/VHOST`, or `amqps://` for TLS. Without a virtual host it is the broker's first one, `/`. Never with
    /// a user or a password.
    #[schemars(length(min = 8, max = 1000))]
    pub url: String,
    #[schemars(length(min = 1, max = 255))]
    pub username: String,
    pub password: PasswordRef,
    /// Certificates, as PEM, of who may vouch for the broker, besides those the system trusts. Only with `amqps://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub ca: Option<String>,
}

/// Where a password is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PasswordRef {
    /// The name of a resource of kind `secret_ref`.
    pub secret_ref: ResourceName,
}

/// By hand, because the usual message repeats what was written, and here that may be a password.
impl<'de> Deserialize<'de> for PasswordRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let serde_json::Value::Object(fields) = serde_json::Value::deserialize(deserializer)? else {
            return Err(D::Error::custom(r#"a value is never kept here; write {"secret_ref": "NAME"}"#));
        };
        if let Some(other) = fields.keys().find(|key| *key != "secret_ref") {
            return Err(D::Error::custom(format!("unknown field `{other}`, expected `secret_ref`")));
        }
        let name = fields.get("secret_ref").and_then(serde_json::Value::as_str);
        let name = name.ok_or_else(|| D::Error::custom("secret_ref must be the name of a secret_ref"))?;
        let secret_ref = ResourceName::new(name).map_err(D::Error::custom)?;
        Ok(Self { secret_ref })
    }
}

impl RabbitmqSpec {
    const DESCRIPTION_MAX: usize = 1_000;
    const URL_MAX: usize = 1_000;
    const USERNAME_MAX: usize = 255;
    const CA_MAX: usize = 65_536;

    pub fn check(&self) -> Result<(), BadSpec> {
        let mut checks = Checks::default();
        checks.add(self.check_description()).add(self.check_address()).add(self.check_username());
        checks.done()
    }

    fn check_description(&self) -> Result<(), BadSpec> {
        if let Some(text) = &self.description {
            if text.is_empty() || text.len() > Self::DESCRIPTION_MAX || text.chars().any(char::is_control) {
                let what = format!("between 1 and {} characters, in one line", Self::DESCRIPTION_MAX);
                return Err(BadSpec::at("description", what));
            }
            not_secret("description", text)?;
        }
        Ok(())
    }

    fn check_address(&self) -> Result<(), BadSpec> {
        if self.url.len() > Self::URL_MAX {
            return Err(BadSpec::at("url", format!("at most {} characters", Self::URL_MAX)));
        }
        let address = self.address().map_err(|error| match error {
            NotAnAmqpUrl::UserInfo => BadSpec::forbidden("url", error.to_string()),
            _ => BadSpec::at("url", error.to_string()),
        })?;
        match &self.ca {
            Some(_) if !address.tls => {
                Err(BadSpec::at("ca", "is only of use with an address that begins with amqps://"))
            }
            Some(ca) if ca.len() > Self::CA_MAX => Err(BadSpec::at("ca", format!("at most {} bytes", Self::CA_MAX))),
            Some(ca) => {
                not_secret("ca", ca)?;
                if ca.contains("-----BEGIN CERTIFICATE-----") && ca.contains("-----END CERTIFICATE-----") {
                    Ok(())
                } else {
                    Err(BadSpec::at("ca", "must be certificates as PEM: -----BEGIN CERTIFICATE----- and so on"))
                }
            }
            None => Ok(()),
        }
    }

    fn check_username(&self) -> Result<(), BadSpec> {
        let name = &self.username;
        if name.is_empty() || name.len() > Self::USERNAME_MAX || name.chars().any(char::is_control) {
            let what = format!("between 1 and {} characters, in one line", Self::USERNAME_MAX);
            return Err(BadSpec::at("username", what));
        }
        not_secret("username", name)
    }

    pub fn address(&self) -> Result<AmqpUrl, NotAnAmqpUrl> {
        self.url.parse()
    }
}

fn not_secret(path: &str, text: &str) -> Result<(), BadSpec> {
    let found = looks_secret(text);
    found.map_or(Ok(()), |what| {
        Err(BadSpec::forbidden(path, format!("this looks like {what}; a value is never kept here")))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{ResourceKind, Spec};

    fn read(value: serde_json::Value) -> Result<Spec, BadSpec> {
        let spec = Spec::from_value(ResourceKind::Rabbitmq, value)?;
        spec.check()?;
        Ok(spec)
    }

    #[test]
    fn it_says_where_and_as_whom() {
        let value = json!({"url": "amqp://broker/orders", "username": "bowline", "password": {"secret_ref": "mq"}});
        let spec = read(value).unwrap();
        let text = r#"{"url":"amqp://broker/orders","username":"bowline","password":{"secret_ref":"mq"}}"#;
        assert_eq!(spec.canonical(), text);
        assert_eq!(spec.kind(), ResourceKind::Rabbitmq);
    }

    /// Each with its place, and nothing that may be a password is repeated.
    #[test]
    fn what_does_not_fit_is_named_by_its_place() {
        let good = json!({"url": "amqps://broker", "username": "ann", "password": {"secret_ref": "mq"}});
        let private = "-----BEGIN PRIVATE KEY-----\nhunter22\n-----END PRIVATE KEY-----";
        for (field, value, path, forbidden) in [
            ("url", json!("amqp://ann:hunter22@broker"), "url", true),
            ("url", json!("amqp://broker/"), "url", false),
            ("url", json!("https://broker"), "url", false),
            ("username", json!(""), "username", false),
            ("username", json!("a\nb"), "username", false),
            ("password", json!("hunter22"), "password", false),
            ("password", json!({"value": "hunter22"}), "password", false),
            ("password", json!({"secret_ref": "mq", "value": "hunter22"}), "password", false),
            ("password", json!({"secret_ref": 7}), "password", false),
            ("password", json!({"secret_ref": "no name"}), "password", false),
            ("ca", json!("nonsense"), "ca", false),
            ("ca", json!(private), "ca", true),
            ("ca", json!("-----BEGIN CERTIFICATE-----\nx"), "ca", false),
            ("ca", json!("x\n-----END CERTIFICATE-----"), "ca", false),
            (
                "ca",
                json!(format!("-----BEGIN CERTIFICATE-----{}-----END CERTIFICATE-----", "x".repeat(65_536))),
                "ca",
                false,
            ),
            ("url", json!(format!("amqps://broker/{}", "%61".repeat(400))), "url", false),
            ("tls", json!(true), "tls", false),
            ("description", json!(""), "description", false),
        ] {
            let mut spec = good.clone();
            spec[field] = value.clone();
            let error = read(spec).expect_err("it is refused");
            assert_eq!((error.path.as_str(), error.forbidden), (path, forbidden), "{value}: {error}");
            assert!(!error.to_string().contains("hunter22"), "{error}");
        }
        let mut vouched = good.clone();
        vouched["ca"] = json!("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----");
        assert!(read(vouched).is_ok());
        let mut plain = good;
        plain["url"] = json!("amqp://broker");
        plain["ca"] = json!("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----");
        assert_eq!(read(plain).expect_err("without TLS nobody vouches").path, "ca");
    }
}
