"""Names of fields as they were met in the field: those whose value is a secret, and those that only resemble one."""

from __future__ import annotations

SECRET_NAMES = """
password Password PASSWORD password1 password_1 passwords user.password dbPassword DBPassword db_password DB_PASSWORD
new_password oldPassword password_confirmation passwordConfirm password_hash passwordHash hashed_password PGPASSWORD
pgpassword MYSQL_PWD mysql_root_password admin-password passwd passwd2 user_passwd pwd Pwd userPwd passphrase
key_passphrase sshPassphrase passcode device_passcode pass db_pass userPass smtp_pass dbpass pw user_pw sslpassword
secret Secret SECRET secrets client_secret clientSecret CLIENT_SECRET consumer_secret app-secret webhook-secret
webhook_secret_1 shared_secret secret_key secretKey SECRET_KEY aws_secret_access_key AWS_SECRET_ACCESS_KEY
secretAccessKey django_secret_key totp_secret
token Token access_token accessToken ACCESS_TOKEN access-token refresh_token refreshToken id_token idToken auth_token
authToken X-Auth-Token x-vault-token bearer_token csrf_token csrfToken csrfmiddlewaretoken XSRF-TOKEN session_token
slack_token githubToken operator_token api_token customerAuthToken refresh_tokens x-amz-security-token token_value
token2 authtoken accesstoken jwt JWT user_jwt jwtToken id_jwt
api_key apiKey APIKey API_KEY apikey x-api-key X-Api-Key stripeApiKey api_key_2 apikeys access_key accessKey
aws_access_key_id private_key privateKey PRIVATE_KEY rsa_private_key private_key_pem signing_key signingKey
encryption_key encryptionKey master_key license_key session_key storage_key AccountKey account_key SharedAccessKey
service_key ssh_key hmac_key auth_key app_key deploy_key stripe_key subscription_key Ocp-Apim-Subscription-Key
authorization Authorization AUTHORIZATION Proxy-Authorization x-authorization authorization_header auth Auth basic_auth
http_auth proxyAuth auth_header auth_code authorization_code oauth bearer
cookie Cookie set-cookie Set-Cookie setCookie cookies session_cookie
session session_id sessionId SESSION_ID sessionid JSESSIONID PHPSESSID user_session sid connect.sid
credential credentials Credentials user_credentials aws_credentials creds db_creds
pin Pin PIN card_pin pinCode pin_code pin_hash user_pin pin1 otp OTP otp_code totp mfa_code 2fa_code sms_code
verification_code security_code recovery_code recovery_codes backup_codes one_time_code one_time_password
cvv CVV cvv2 CVV2 card_cvv cvc cvc2 csc card_number cardNumber CardNumber card_no cardnumber cc_number credit_card
creditCardNumber pan iban IBAN ssn social_security_number account_number bank_account_number
dsn DSN sentry_dsn database_dsn connection_string connectionString ConnectionString CONNECTION_STRING conn_str connstr
database_url DATABASE_URL db_url redis_url REDIS_URL mongodb_uri broker_url CELERY_BROKER_URL SQLALCHEMY_DATABASE_URI
signature Signature X-Signature x-hub-signature-256 X-Amz-Signature webhook_signature sig hmac hmac_sha256
salt password_salt passkey mnemonic seed_phrase recovery_phrase security_answer magic_link saml_response
client_assertion code_verifier sas_token pem keytab kubeconfig track_data passwort contraseña senha ｐａｓｓｗｏｒｄ
""".split()  # noqa: SIM905 - a list of words reads better so

PLAIN_NAMES = """
author authors authority authorized authorised unauthorized authored_by authentic authenticated oauth_provider
auth_method auth_type auth_url auth_mode authorization_endpoint authorization_url
pinned pins pinning pinterest spin opinion shipping spinner ping pinboard
tokens_in tokens_out tokens_used token_count tokens_total max_tokens_per_minute token_type token_expires_at tokenizer
tokenize tokenized token_bucket token_url token_ttl_s
key keys key_count key_id order_key dedupe_key idempotency_key Idempotency-Key unique_key ordering_key partition_key
sort_key primary_key foreign_key public_key cache_key group_key keyboard keyword keywords monkey turkey api_key_id
routing_key keyspace
session_count sessions session_started_at session_timeout_s session_length obsession
secretary secretariat secret_name secret_version secret_arn
passenger passport compass bypass passed passes passive pass_rate boarding_pass password_changed_at password_length
password_policy has_passwords_enabled passwordless password_file
signature_valid signature_algorithm signature_version designature_count
cookie_name cookie_count cookie_policy
code codes error_code status_code remote_code country_code code_counts postal_code
card card_brand card_type account account_id account_name cardinal discard
number order_number phone_number id client_id user_id request_id trace_id span_id job_id tenant queue kind state
credential_type credentials_count credential_id
url uri base_url webhook_url callback_url endpoint_url connection connections connection_count dsn_count
salted saltwater pan_out panel company span expand sidebar inside consider signal sign design assigned significance
otpauth_count captcha_passed message reason attempt attempts duration_s fingerprint digest checksum hash etag
username user email name title description host port database path file_name
""".split()  # noqa: SIM905
