"""Names of secrets, and as many that only resemble them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.model.secret_names import is_counted, is_secret_name
from fcguard.model.secrets import MASK, PLAIN_REDACTOR

SECRET = """
password Password PASSWORD passwd passwords user_password userPassword dbPassword db_password DB_PASSWORD DB_PASS
db_pass dbpass dbPass mysql_pass smtp_pass SMTP_PASS user_pass pass PASS redis_pass admin_pass root_pass keystore_pass
ftp_pass proxy_pass passphrase PassPhrase passcode pass_word pass-word passw0rd PGPASSWORD MYSQL_PWD pwd user_pwd secret
secrets client_secret clientSecret aws_secret_access_key AWS_SECRET_ACCESS_KEY secret_key secretKey SECRET_KEY_BASE
app_secret webhook_secret shared_secret token Token TOKEN access_token accessToken ACCESS_TOKEN refresh_token id_token
auth_token authToken authtoken X-Auth-Token api_token apiToken bearer_token csrf_token session_token github_token
GITHUB_TOKEN slack_token tokens access_tokens refresh_tokens api_tokens user_tokens device_token jwt JWT jwts access_jwt
jwtToken jwt_token jwt_secret user_jwt sas sas_token sasToken SAS sas_url SASToken sas_key apikey api_key API_KEY apiKey
api-key X-Api-Key api_keys openai_api_key OPENAI_API_KEY access_key accessKey access-key account_key AccountKey
storage_key SharedAccessKey shared_access_key private_key privateKey ssh_key signing_key encryption_key master_key
hmac_key license_key subscription_key consumer_key service_key session_key sessionKey deploy_key connection_string
connectionString ConnectionString connection_strings conn_str connstr DB_CONN_STRING authorization Authorization
Proxy-Authorization auth Auth auth_header http_auth basic_auth auth_key credentials credential aws_credentials
google.credentials cookie Cookie cookies set-cookie Set-Cookie session_cookie bearer pin PIN user_pin otp OTP totp
totp_code cvv cvv2 cvc recovery_code recovery_codes backup_codes verification_code security_code mfa_code sms_code
seed_phrase 密码 登录密码 口令 密钥 访问令牌 验证码 私钥 パスワード contraseña mot_de_passe password_hash password2 new_password confirmPassword
old-password spring.datasource.password redis.password ca_private_key_pem privateKeyPem token_secret tokenSecret
oauth_token oauth_token_secret vault_token xsrf-token csrfToken X-CSRF-Token
""".split()

HARMLESS = """
compass compasses bypass surpass trespass overpass encompass passenger passengers passage passport passport_number
passive passed passes passing pass_rate pass_count pass_threshold pass_through first_pass second_pass boarding_pass
num_passes passback tests_passed is_passed password_policy password_length password_min_length password_strength
password_changed_at passwordChangedAt password_expires_at password_expiry password_updated_at password_required
password_file password_path secretary secretariat secrete secretion secretive secret_name secretName secret_arn
secret_version secret_ref secret_file token_count tokenCount tokens_used tokens_per_second tokens_left token_usage
token_limit token_type tokenType token_ttl token_expiry token_expires_at tokenExpiresAt token_expires_in token_endpoint
token_url token_uri token_index token_position token_length token_budget token_rate token_price token_bucket token_class
token_ids token_logprobs max_tokens maxTokens MAX_TOKENS min_tokens num_tokens n_tokens total_tokens prompt_tokens
completion_tokens input_tokens output_tokens inputTokens outputTokens cached_tokens reasoning_tokens thinking_tokens
audio_tokens stop_tokens special_tokens new_tokens max_new_tokens max_output_tokens tokenizer tokenize tokenized
tokenization tokenizers tokeniser page_token pageToken next_token nextToken next_page_token nextPageToken
continuation_token sync_token cursor_token asset assets asset_id sasquatch sass sassy disaster sas_version saskatchewan
vessel jwt_algorithm jwt_exp jwt_expiry jwt_issuer jwt_ttl jwt_audience key keys key_id primary_key foreign_key
public_key publicKey partition_key sort_key cache_key cacheKey idempotency_key business_key key_name keyboard monkey
keynote turkey donkey hotkey api_key_count apikeyword access_key_type private_key_path private_key_file privateKeyFile
ssh_key_path key_vault author authors authority authored co_author auth_type authType auth_method auth_url auth_provider
auth_mode auth_enabled auth_status auth_scheme auth_failures authentic authenticated authentication_time
authorization_url authorizationUrl authorization_endpoint authorization_type authorized cookie_consent cookieConsent
cookie_policy cookie_domain cookie_banner cookies_enabled cookie_name pinned pinning spin opinion pint pinterest
pineapple option options optics hotpot shipping encryption encrypted connection connections connection_timeout
connection_id conn_count string_length streaming codes code country_code zip_code status_code error_code promo_code
product_code qr_code credential_type credentialType credential_id cvs cvx pwdx order_id name user username email phone
copper message description title url path file session_id session_count certificate cert signature function_name
function_key_count store store_id mypassive compass_heading passenger_count secretary_name 密码长度 密码策略 订单号 用户名 数量
subtokens wordTokens ssid passkey_count
""".split()


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret_name(name)
    assert PLAIN_REDACTOR.value({name: "hunter2"}) == {name: MASK}
    assert PLAIN_REDACTOR.value([{"a": {name: ["hunter2"]}}]) == [{"a": {name: MASK}}]


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_only_resembles_one_is_left_alone(name: str) -> None:
    assert not is_secret_name(name)
    assert PLAIN_REDACTOR.value({name: "north"}) == {name: "north"}


def test_there_are_as_many_look_alikes() -> None:
    assert len(set(SECRET)) >= 150
    assert len(set(HARMLESS)) >= len(set(SECRET))
    assert set(SECRET).isdisjoint(HARMLESS)


@pytest.mark.parametrize(
    "name", ["db.password", "my password", "X-Api-Key", "the/secret", "a:token", "user\tpassword", "A.B-c d_pin"]
)
def test_separators_do_not_hide_a_name(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    ("value", "counted"),
    [(500, True), (1.5, True), ("500", True), (True, False), ("a5", False), ([1], False), (None, False)],
)
def test_a_number_of_tokens_or_passed_tests_is_no_secret(value: Any, counted: bool) -> None:
    assert is_counted("tokens", value) is counted
    assert is_counted("pass", value) is counted
    assert not is_counted("password", value)


@given(st.text(max_size=600))
def test_any_text_may_be_a_name(name: str) -> None:
    assert is_secret_name(name) is is_secret_name(name)


def test_a_long_name_is_looked_at_from_both_ends() -> None:
    assert is_secret_name("x" * 5000 + "_password")
    assert is_secret_name("password_" + "x" * 5000)
    assert not is_secret_name("x" * 5000)
