//! API and worker tokens: `bow_<kind>_<id>_<secret><crc>`.
//!
//! The *id* is public and finds the stored row. The *secret* is 256 random bits; only its SHA-256 is stored, which needs
//! no salt and no slow hash, because nobody guesses 256 bits. The *crc* covers everything before it, so a mistyped or cut
//! token is refused without asking the store, and a leaked one can be recognised by scanners.
//!
//! Every part has a fixed length and one spelling: there are no two texts for one token.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::base32;
use crate::secret::{SecretBytes, SecretText};

/// How every token begins: tells a token from a JWT.
pub const PREFIX: &str = "bow_";

/// Random bytes one token is made of: the id's and the secret's.
pub const ENTROPY_BYTES: usize = ID_BYTES + SECRET_BYTES;

const ID_BYTES: usize = 10;
const ID_CHARS: usize = base32::text_len(ID_BYTES);
const SECRET_BYTES: usize = 32;
const SECRET_CHARS: usize = base32::text_len(SECRET_BYTES);
const CRC_CHARS: usize = 6;
const KIND_CHARS: usize = 3;
const TEXT_CHARS: usize = PREFIX.len() + KIND_CHARS + 1 + ID_CHARS + 1 + SECRET_CHARS + CRC_CHARS;

/// Compared with when a token's id is unknown, so that an unknown id takes as long as a wrong secret.
const ABSENT_HASH: [u8; 32] = [0; 32];

/// Whom a token was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A client of the API.
    Api,
    /// A worker, speaking the worker protocol.
    Worker,
    /// An agent that wants to join, once.
    Join,
}

impl TokenKind {
    pub const fn text(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "wrk",
            Self::Join => "joi",
        }
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl FromStr for TokenKind {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        match text {
            "api" => Ok(Self::Api),
            "wrk" => Ok(Self::Worker),
            "joi" => Ok(Self::Join),
            _ => Err(TokenError::Shape),
        }
    }
}

impl Serialize for TokenKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for TokenKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(|_| de::Error::custom("a token kind is \"api\", \"wrk\" or \"joi\""))
    }
}

/// The public name of a token: 16 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId([u8; ID_BYTES]);

impl TokenId {
    pub const fn from_bytes(bytes: [u8; ID_BYTES]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(ID_CHARS);
        base32::encode(&self.0, &mut text);
        f.pad(&text)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenId({self})")
    }
}

/// A text that is no token id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token id is 16 characters of 0-9 and a-z without i, l, o and u")]
pub struct TokenIdError;

impl FromStr for TokenId {
    type Err = TokenIdError;

    fn from_str(text: &str) -> Result<Self, TokenIdError> {
        let mut bytes = [0; ID_BYTES];
        base32::decode(text, &mut bytes).ok_or(TokenIdError)?;
        Ok(Self(bytes))
    }
}

impl Serialize for TokenId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Why a text is no token. Says nothing about the text itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the credential does not have the form of a token")]
    Shape,
    #[error("the token's checksum does not match; it was cut or mistyped")]
    Checksum,
}

/// A whole token, secret included. It exists when it is minted and shown once, and while a request is being checked.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText {
    kind: TokenKind,
    id: TokenId,
    secret: SecretBytes,
    text: SecretText,
}

impl TokenText {
    /// A new token. `entropy` comes from the operating system's generator and is used for nothing else.
    pub fn mint(kind: TokenKind, entropy: [u8; ENTROPY_BYTES]) -> Self {
        let (id, secret) = entropy.split_first_chunk::<ID_BYTES>().expect("entropy is longer than an id");
        let mut text = String::with_capacity(TEXT_CHARS);
        text.push_str(PREFIX);
        text.push_str(kind.text());
        text.push('_');
        base32::encode(id, &mut text);
        text.push('_');
        base32::encode(secret, &mut text);
        let crc = crc32(text.as_bytes());
        base32::encode_30_bits(crc, &mut text);
        Self { kind, id: TokenId(*id), secret: SecretBytes::new(secret), text: SecretText::new(text) }
    }

    /// Reads a token. Success says that it was minted by somebody who knows the form, and nothing more: only
    /// [`Self::verify`] says whether it is ours.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        if text.len() != TEXT_CHARS || !text.is_ascii() {
            return Err(TokenError::Shape);
        }
        let (body, crc) = text.split_at(TEXT_CHARS - CRC_CHARS);
        let rest = body.strip_prefix(PREFIX).ok_or(TokenError::Shape)?;
        let (kind, rest) = rest.split_at(KIND_CHARS);
        let kind = kind.parse()?;
        let rest = rest.strip_prefix('_').ok_or(TokenError::Shape)?;
        let (id, rest) = rest.split_at(ID_CHARS);
        let id = id.parse().map_err(|_| TokenError::Shape)?;
        let secret_text = rest.strip_prefix('_').ok_or(TokenError::Shape)?;
        let mut secret = SecretBytes::new([0; SECRET_BYTES]);
        base32::decode(secret_text, secret.expose_mut()).ok_or(TokenError::Shape)?;

        let mut expected_crc = String::with_capacity(CRC_CHARS);
        base32::encode_30_bits(crc32(body.as_bytes()), &mut expected_crc);
        if crc != expected_crc {
            return Err(TokenError::Checksum);
        }
        Ok(Self { kind, id, secret, text: SecretText::new(text) })
    }

    pub const fn kind(&self) -> TokenKind {
        self.kind
    }

    pub const fn id(&self) -> TokenId {
        self.id
    }

    /// What is stored instead of the secret.
    pub fn secret_hash(&self) -> [u8; 32] {
        Sha256::digest(self.secret.expose()).into()
    }

    /// Whether the secret is the one behind `stored_hash`, in constant time.
    pub fn verify(&self, stored_hash: &[u8; 32]) -> bool {
        self.secret_hash().ct_eq(stored_hash).into()
    }

    /// [`Self::verify`] for an id that may be unknown: `None` is refused after the same work as a wrong secret.
    pub fn verify_found(&self, stored_hash: Option<&[u8; 32]>) -> bool {
        let matches = self.verify(stored_hash.unwrap_or(&ABSENT_HASH));
        matches & stored_hash.is_some()
    }

    /// The whole text, to show it once to its owner.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenText({PREFIX}{}_{}_***)", self.kind, self.id)
    }
}

/// CRC-32 as in zip and PNG, bit by bit: tokens are short and rare enough for that.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let carry = 0_u32.wrapping_sub(crc & 1);
            crc = (crc >> 1) ^ (0xedb8_8320 & carry);
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> TokenText {
        TokenText::mint(TokenKind::Api, std::array::from_fn(|at| at as u8))
    }

    #[test]
    fn the_form_is_fixed() {
        assert_eq!(
            sample().expose(),
            "bow_api_000g40r40m30e209_185gr38e1w8124gk2gahc5rr34d1p70x3rfj08924cj2a9h750mgfhjr4k"
        );
        assert_eq!(sample().expose().len(), 83);
    }

    #[test]
    fn crc32_is_the_well_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn debug_shows_the_id_and_hides_the_secret() {
        assert_eq!(format!("{:?}", sample()), "TokenText(bow_api_000g40r40m30e209_***)");
    }

    #[test]
    fn a_token_verifies_against_its_own_hash_only() {
        let token = sample();
        let other = TokenText::mint(TokenKind::Api, [9; ENTROPY_BYTES]);
        assert!(token.verify(&token.secret_hash()));
        assert!(!token.verify(&other.secret_hash()));
        assert!(token.verify_found(Some(&token.secret_hash())));
        assert!(!token.verify_found(Some(&other.secret_hash())));
        assert!(!token.verify_found(None));
    }

    #[test]
    fn the_hash_is_sha256_of_the_secret_bytes() {
        let entropy: [u8; ENTROPY_BYTES] = std::array::from_fn(|at| at as u8);
        let expected: [u8; 32] = Sha256::digest(&entropy[ID_BYTES..]).into();
        assert_eq!(sample().secret_hash(), expected);
    }

    /// B011: an id that exists, with somebody else's secret and a crc that is right.
    #[test]
    fn another_tokens_secret_does_not_open_this_id() {
        let mine = TokenText::mint(TokenKind::Api, [1; ENTROPY_BYTES]);
        let mut entropy = [2; ENTROPY_BYTES];
        entropy[..ID_BYTES].fill(1);
        let forged = TokenText::parse(TokenText::mint(TokenKind::Api, entropy).expose()).unwrap();
        assert_eq!(forged.id(), mine.id());
        assert!(!forged.verify(&mine.secret_hash()));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let good = sample().expose().to_owned();
        let bad = [
            String::new(),
            "bow_".to_owned(),
            "null".to_owned(),
            good[1..].to_owned(),
            good[..82].to_owned(),
            format!("{good} "),
            format!(" {good}"),
            format!("{good}0"),
            good.to_uppercase(),
            good.replacen("bow_api_", "bow_adm_", 1),
            good.replacen("bow_api_", "orc_api_", 1),
            good.replacen("bow_api_0", "bow_api_é", 1)[..83].to_owned(),
            "é".repeat(42)[..83 - 1].to_owned(),
        ];
        for text in bad {
            assert!(TokenText::parse(&text).is_err(), "{text:?}");
        }
        let other_kind = good.replacen("bow_api_", "bow_wrk_", 1);
        assert_eq!(TokenText::parse(&other_kind), Err(TokenError::Checksum));
    }

    #[test]
    fn errors_do_not_repeat_the_token() {
        let changed = sample().expose().replacen('c', "d", 1);
        let error = TokenText::parse(&changed).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("000g40r4"));
    }

    #[test]
    fn ids_print_and_parse_themselves() {
        let id = sample().id();
        assert_eq!(id.to_string(), "000g40r40m30e209");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"000g40r40m30e209\"");
        assert_eq!(serde_json::from_str::<TokenId>("\"000g40r40m30e209\"").unwrap(), id);
        for text in
            ["", "000g40r40m30e20", "000g40r40m30e2090", "000G40R40M30E209", "../../etc/passwd", "i00g40r40m30e209"]
        {
            assert_eq!(text.parse::<TokenId>(), Err(TokenIdError), "{text}");
        }
        assert_eq!(TokenId::from_bytes(*id.as_bytes()), id);
    }

    #[test]
    fn kinds_print_and_parse_themselves() {
        for kind in [TokenKind::Api, TokenKind::Worker] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(serde_json::from_str::<TokenKind>(&serde_json::to_string(&kind).unwrap()).unwrap(), kind);
        }
        assert!("API".parse::<TokenKind>().is_err());
    }

    /// The crc keeps 30 of 32 bits, which voids the textbook promise. But a crc is affine: what a change does to it
    /// depends only on the changed bits and their distance from the end. So all cases can be tried, for all tokens.
    #[test]
    fn no_single_changed_character_keeps_the_crc() {
        let token = sample();
        let body = &token.expose().as_bytes()[..TEXT_CHARS - CRC_CHARS];
        let before = crc32(body) << 2;
        for at in 0..body.len() {
            for change in 1..=255 {
                let mut changed = body.to_vec();
                changed[at] ^= change;
                assert_ne!(crc32(&changed) << 2, before, "byte {at} changed by {change:#x}");
            }
        }
    }

    fn any_kind() -> impl Strategy<Value = TokenKind> {
        prop_oneof![Just(TokenKind::Api), Just(TokenKind::Worker)]
    }

    proptest! {
        #[test]
        fn a_minted_token_reads_back(kind in any_kind(), entropy in any::<[u8; ENTROPY_BYTES]>()) {
            let minted = TokenText::mint(kind, entropy);
            let read = TokenText::parse(minted.expose()).unwrap();
            prop_assert_eq!(read.kind(), kind);
            prop_assert!(entropy.starts_with(read.id().as_bytes()));
            prop_assert!(read.verify(&minted.secret_hash()));
            prop_assert_eq!(read, minted);
        }

        #[test]
        fn a_changed_character_is_refused(
            entropy in any::<[u8; ENTROPY_BYTES]>(),
            at in 0..TEXT_CHARS,
            new in any::<char>(),
            ascii in 0_u8..128,
            use_ascii in any::<bool>(),
        ) {
            let minted = TokenText::mint(TokenKind::Api, entropy);
            let new = if use_ascii { char::from(ascii) } else { new };
            let changed: String =
                minted.expose().chars().enumerate().map(|(i, old)| if i == at { new } else { old }).collect();
            prop_assume!(changed != minted.expose());
            let refused = TokenText::parse(&changed).map_or(true, |token| !token.verify(&minted.secret_hash()));
            prop_assert!(refused);
        }

        #[test]
        fn no_text_panics(text in any::<String>(), tail in "[ -~é]{0,83}") {
            let _ = TokenText::parse(&text);
            let _ = TokenText::parse(&format!("{PREFIX}{tail}"));
        }
    }
}
