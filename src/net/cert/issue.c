#include "net/cert/issue.h"

#include "base/file.h"
#include "net/cert/x509.h"

#include <arpa/inet.h>
#include <gnutls/crypto.h>
#include <string.h>

void fli_pem_wipe(fli_pem *pem)
{
    if (pem->data) gnutls_memset(pem->data, 0, pem->size);
    gnutls_free(pem->data);
    *pem = (fli_pem){0};
}

static fl_status failed(fl_ctx *ctx, const char *what, int code)
{
    return code ? fli_x509_fail(ctx, FL_ESYSTEM, what, code) : FL_OK;
}

fl_status fli_issue_serial(fl_ctx *ctx, uint8_t serial[FLI_CERT_SERIAL])
{
    int code = gnutls_rnd(GNUTLS_RND_NONCE, serial, FLI_CERT_SERIAL);
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40); /* positive, and of this length whatever comes */
    return failed(ctx, "no random number", code);
}

fl_status fli_issue_key(fl_ctx *ctx, gnutls_x509_privkey_t *key, fli_pem *pem)
{
    const unsigned curve = GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1);
    *pem = (fli_pem){0};
    int code = gnutls_x509_privkey_init(key);
    if (code) *key = NULL;
    if (!code) code = gnutls_x509_privkey_generate(*key, GNUTLS_PK_ECDSA, curve, 0);
    if (!code) code = gnutls_x509_privkey_export2_pkcs8(*key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, pem);
    return failed(ctx, "a key cannot be made", code);
}

fl_status fli_issue_public(fl_ctx *ctx, gnutls_x509_privkey_t key, gnutls_pubkey_t *out)
{
    gnutls_privkey_t private = NULL;
    *out = NULL;
    int code = gnutls_privkey_init(&private);
    if (!code) code = gnutls_privkey_import_x509(private, key, 0);
    if (!code) code = gnutls_pubkey_init(out);
    if (!code) code = gnutls_pubkey_import_privkey(*out, private, 0, 0);
    if (private) gnutls_privkey_deinit(private);
    return failed(ctx, "a key cannot be used", code);
}

static int strong_enough(gnutls_pubkey_t key)
{
    unsigned bits = 0;
    int kind = gnutls_pubkey_get_pk_algorithm(key, &bits);
    return kind >= 0 && gnutls_pk_bits_to_sec_param((gnutls_pk_algorithm_t)kind, bits) >= GNUTLS_SEC_PARAM_MEDIUM;
}

static int read_request(gnutls_x509_crq_t request, const gnutls_datum_t *text, char *name, size_t n,
                        gnutls_pubkey_t *out)
{
    size_t size = n;
    int code = gnutls_x509_crq_import(request, text, GNUTLS_X509_FMT_PEM);
    if (!code) code = gnutls_x509_crq_verify(request, 0);
    if (!code) code = gnutls_x509_crq_get_dn_by_oid(request, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size);
    if (!code && strlen(name) != size) code = GNUTLS_E_ASN1_DER_ERROR;
    if (!code) code = gnutls_pubkey_init(out);
    if (!code) code = gnutls_pubkey_import_x509_crq(*out, request, 0);
    return code;
}

fl_status fli_issue_read_request(fl_ctx *ctx, const char *path, char *name, size_t n, gnutls_pubkey_t *out)
{
    char *pem;
    size_t bytes = 0;
    gnutls_x509_crq_t request = NULL;
    *out = NULL;
    fl_status s = fli_file_read(ctx, path, FLI_PEM_MOST, &pem, &bytes);
    if (s) return s;
    const gnutls_datum_t text = {(unsigned char *)pem, (unsigned)bytes};
    int code = gnutls_x509_crq_init(&request);
    if (!code) code = read_request(request, &text, name, n, out);
    if (code)
        s = fli_fail(ctx, FL_EFORMAT, "%s: is not a request for a certificate: %s", path, gnutls_strerror(code));
    else if (!strong_enough(*out))
        s = fli_fail(ctx, FL_EFORMAT, "%s: its key is too weak", path);
    if (request) gnutls_x509_crq_deinit(request);
    fli_free(pem);
    return s;
}

/* A server is reached under names, or under addresses, which are in a certificate as their bytes. */
static int add_hosts(gnutls_x509_crt_t cert, const fli_issue *what)
{
    unsigned char address[16];
    int code = 0;
    for (size_t i = 0; i < what->hosts && !code; i++) {
        const char *host = what->host[i];
        unsigned flags = i ? GNUTLS_FSAN_APPEND : GNUTLS_FSAN_SET;
        unsigned bytes = inet_pton(AF_INET, host, address) == 1 ? 4 : inet_pton(AF_INET6, host, address) == 1 ? 16 : 0;
        code =
            bytes ? gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_IPADDRESS, address, bytes, flags)
                  : gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_DNSNAME, host, (unsigned)strlen(host), flags);
    }
    return code;
}

static int fill_in(gnutls_x509_crt_t cert, const fli_issue *what, gnutls_pubkey_t key)
{
    int authority = !what->purpose;
    int code = gnutls_x509_crt_set_version(cert, 3);
    if (!code) code = gnutls_x509_crt_set_serial(cert, what->serial, sizeof what->serial);
    if (!code) code = gnutls_x509_crt_set_activation_time(cert, (time_t)what->begins);
    if (!code) code = gnutls_x509_crt_set_expiration_time(cert, (time_t)what->ends);
    if (!code) code = gnutls_x509_crt_set_pubkey(cert, key);
    if (!code)
        code = gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, what->name,
                                             (unsigned)strlen(what->name));
    if (!code && what->unit)
        code = gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, 0, what->unit,
                                             (unsigned)strlen(what->unit));
    /* no authority below this one: a certificate that it signs can sign nothing */
    if (!code) code = gnutls_x509_crt_set_basic_constraints(cert, (unsigned)authority, authority ? 0 : -1);
    if (!code)
        code = gnutls_x509_crt_set_key_usage(cert, authority ? GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN
                                                             : GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (!code && what->purpose) code = gnutls_x509_crt_set_key_purpose_oid(cert, what->purpose, 0);
    if (!code) code = add_hosts(cert, what);
    return code;
}

/* Which key it has, and which signed it: how a chain is found. */
static int add_key_ids(gnutls_x509_crt_t cert, gnutls_pubkey_t key, gnutls_x509_crt_t signer)
{
    unsigned char id[64];
    size_t n = sizeof id;
    int code = gnutls_pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA1, id, &n);
    if (!code) code = gnutls_x509_crt_set_subject_key_id(cert, id, n);
    n = sizeof id;
    if (!code) code = gnutls_x509_crt_get_subject_key_id(signer, id, &n, NULL);
    if (!code) code = gnutls_x509_crt_set_authority_key_id(cert, id, n);
    return code;
}

fl_status fli_issue_cert(fl_ctx *ctx, const fli_issue *what, gnutls_pubkey_t key, const fli_issuer *issuer,
                         fli_pem *pem)
{
    gnutls_x509_crt_t cert = NULL;
    *pem = (fli_pem){0};
    int code = gnutls_x509_crt_init(&cert);
    gnutls_x509_crt_t signer = what->purpose ? issuer->cert : cert;
    if (!code) code = fill_in(cert, what, key);
    if (!code) code = add_key_ids(cert, key, signer);
    if (!code) code = gnutls_x509_crt_sign2(cert, signer, issuer->key, GNUTLS_DIG_SHA256, 0);
    if (!code) code = gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, pem);
    if (cert) gnutls_x509_crt_deinit(cert);
    return failed(ctx, "a certificate cannot be made", code);
}

fl_status fli_issue_request(fl_ctx *ctx, const char *name, gnutls_x509_privkey_t key, fli_pem *pem)
{
    gnutls_x509_crq_t request = NULL;
    *pem = (fli_pem){0};
    int code = gnutls_x509_crq_init(&request);
    if (!code) code = gnutls_x509_crq_set_version(request, 1);
    if (!code) code = gnutls_x509_crq_set_key(request, key);
    if (!code)
        code = gnutls_x509_crq_set_dn_by_oid(request, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name));
    if (!code) code = gnutls_x509_crq_sign2(request, key, GNUTLS_DIG_SHA256, 0);
    if (!code) code = gnutls_x509_crq_export2(request, GNUTLS_X509_FMT_PEM, pem);
    if (request) gnutls_x509_crq_deinit(request);
    return failed(ctx, "a request cannot be made", code);
}

static int add_line(gnutls_x509_crl_t list, const fli_cert_line *line)
{
    unsigned char serial[FLI_CERT_SERIAL];
    size_t n = sizeof serial;
    if (!line->revoked) return 0;
    const gnutls_datum_t hex = {(unsigned char *)line->serial, (unsigned)strlen(line->serial)};
    int code = gnutls_hex_decode(&hex, serial, &n);
    return code ? code : gnutls_x509_crl_set_crt_serial(list, serial, n, (time_t)line->revoked);
}

static int name_list(gnutls_x509_crl_t list, uint64_t number, gnutls_x509_crt_t issuer)
{
    unsigned char bytes[8], id[64];
    size_t n = sizeof id, zeros = 0;
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(number >> (56 - 8 * i));
    while (zeros < 7 && !bytes[zeros] && bytes[zeros + 1] < 0x80) zeros++; /* DER wants none that it can do without */
    int code = gnutls_x509_crl_set_version(list, 2);
    if (!code) code = gnutls_x509_crl_set_this_update(list, time(NULL));
    if (!code) code = gnutls_x509_crl_set_next_update(list, gnutls_x509_crt_get_expiration_time(issuer));
    if (!code) code = gnutls_x509_crl_set_number(list, bytes + zeros, sizeof bytes - zeros);
    if (!code) code = gnutls_x509_crt_get_subject_key_id(issuer, id, &n, NULL);
    if (!code) code = gnutls_x509_crl_set_authority_key_id(list, id, n);
    return code;
}

fl_status fli_issue_list(fl_ctx *ctx, const fli_cert_line *line, size_t lines, uint64_t number,
                         const fli_issuer *issuer, fli_pem *pem)
{
    gnutls_x509_crl_t list = NULL;
    *pem = (fli_pem){0};
    int code = gnutls_x509_crl_init(&list);
    if (!code) code = name_list(list, number, issuer->cert);
    for (size_t i = 0; i < lines && !code; i++) code = add_line(list, line + i);
    if (!code) code = gnutls_x509_crl_sign2(list, issuer->cert, issuer->key, GNUTLS_DIG_SHA256, 0);
    if (!code) code = gnutls_x509_crl_export2(list, GNUTLS_X509_FMT_PEM, pem);
    if (list) gnutls_x509_crl_deinit(list);
    return failed(ctx, "a revocation list cannot be made", code);
}
