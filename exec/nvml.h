/* exec/nvml.h: what we use of NVIDIA's management library: its types and functions as the public API
 * reference describes them. The library is found when it is needed; nothing of it is there at build time. */
#ifndef EXEC_NVML_H
#define EXEC_NVML_H

typedef struct nvml_device *nvml_device_t;
typedef struct nvml_event_set *nvml_event_set_t;

enum {
	NVML_OK = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_NOT_FOUND = 6,
	NVML_TIMEOUT = 10,
	NVML_GPU_IS_LOST = 15,
	NVML_LINKS = 18, /* NvLinks of one card, at most */
	NVML_EVENT_DOUBLE_BIT = 0x2,
	NVML_EVENT_XID = 0x8,
	NVML_UNCORRECTED = 1, /* memory error type */
	NVML_VOLATILE = 0     /* since the driver was loaded */
};

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml_utilization {
	unsigned gpu, memory;
};
struct nvml_process {
	unsigned pid;
	unsigned long long used_memory;
	unsigned gpu_instance, compute_instance;
};
struct nvml_process_sample {
	unsigned pid;
	unsigned long long time_usec;
	unsigned sm_util, mem_util, enc_util, dec_util;
};
struct nvml_event {
	nvml_device_t device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};

/* NVML_CALL(required, name, arguments): a function, in struct nvml under the same name. */
#define NVML_CALLS(CALL)                                                                                     \
	CALL(1, nvmlInit_v2, (void))                                                                         \
	CALL(1, nvmlDeviceGetCount_v2, (unsigned *count))                                                    \
	CALL(1, nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvml_device_t *ret))                         \
	CALL(1, nvmlDeviceGetUUID, (nvml_device_t d, char *uuid, unsigned length))                           \
	CALL(1, nvmlDeviceGetName, (nvml_device_t d, char *name, unsigned length))                           \
	CALL(1, nvmlDeviceGetMinorNumber, (nvml_device_t d, unsigned *minor))                                \
	CALL(1, nvmlDeviceGetPciInfo_v3, (nvml_device_t d, struct nvml_pci * pci))                           \
	CALL(1, nvmlDeviceGetMemoryInfo, (nvml_device_t d, struct nvml_memory * memory))                     \
	CALL(0, nvmlDeviceGetCpuAffinity, (nvml_device_t d, unsigned words, unsigned long *set))             \
	CALL(0, nvmlDeviceGetNvLinkState, (nvml_device_t d, unsigned link, unsigned *active))                \
	CALL(0, nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvml_device_t d, unsigned link, struct nvml_pci *pci)) \
	CALL(0, nvmlDeviceGetMigMode, (nvml_device_t d, unsigned *current, unsigned *pending))               \
	CALL(0, nvmlDeviceGetMaxMigDeviceCount, (nvml_device_t d, unsigned *count))                          \
	CALL(0, nvmlDeviceGetMigDeviceHandleByIndex, (nvml_device_t d, unsigned index, nvml_device_t *ret))  \
	CALL(0, nvmlDeviceGetGpuInstanceId, (nvml_device_t d, unsigned *id))                                 \
	CALL(0, nvmlDeviceGetComputeInstanceId, (nvml_device_t d, unsigned *id))                             \
	CALL(0, nvmlDeviceGetTotalEccErrors,                                                                 \
	     (nvml_device_t d, unsigned type, unsigned counter, unsigned long long *count))                  \
	CALL(0, nvmlDeviceGetRemappedRows,                                                                   \
	     (nvml_device_t d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,                \
	      unsigned *failed))                                                                             \
	CALL(0, nvmlDeviceGetUtilizationRates, (nvml_device_t d, struct nvml_utilization * use))             \
	CALL(0, nvmlDeviceGetComputeRunningProcesses_v3,                                                     \
	     (nvml_device_t d, unsigned *count, struct nvml_process *process))                               \
	CALL(0, nvmlDeviceGetProcessUtilization,                                                             \
	     (nvml_device_t d, struct nvml_process_sample * sample, unsigned *count,                         \
	      unsigned long long since_usec))                                                                \
	CALL(0, nvmlEventSetCreate, (nvml_event_set_t * set))                                                \
	CALL(0, nvmlDeviceGetSupportedEventTypes, (nvml_device_t d, unsigned long long *types))              \
	CALL(0, nvmlDeviceRegisterEvents, (nvml_device_t d, unsigned long long types, nvml_event_set_t set)) \
	CALL(0, nvmlEventSetWait_v2, (nvml_event_set_t set, struct nvml_event * event, unsigned msec))

#endif
